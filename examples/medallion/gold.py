"""Gold from silver: what each shop and product earned, as Delta tables and a picture.

Gold is always made anew from the whole of silver, in one commit for each table, so it can be made at any time
and as often as you like.
"""

import sys
from collections import defaultdict
from pathlib import Path

import duckdb
import matplotlib as mpl
import matplotlib.pyplot as plt
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

COLOURS = ("#0072b2", "#e69f00", "#009e73")  # distinct for every kind of colour blindness
BY_DAY = """
    select cast(placed as date) as day, shop, count(*) as orders, sum(quantity * price) as revenue
    from orders group by all order by day, shop
"""
BY_PRODUCT = """
    select product, sum(quantity) as sold, sum(quantity * price) as revenue
    from orders group by all order by revenue desc
"""


def make(lake: Path) -> dict[str, pa.Table]:
    """Make the tables of gold and their picture, and return the tables."""
    orders = DeltaTable(str(lake / "silver")).to_pyarrow_table()
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'UTC'")
        connection.register("orders", orders)
        tables = {
            name: connection.sql(query).to_arrow_table()
            for name, query in {"revenue_by_day": BY_DAY, "products": BY_PRODUCT}.items()
        }
    for name, table in tables.items():
        write_deltalake(str(lake / "gold" / name), table, mode="overwrite", schema_mode="overwrite")
    picture(tables, lake / "gold" / "revenue.png")
    return tables


def picture(tables: dict[str, pa.Table], path: Path) -> None:
    """Revenue by day and shop, and by product."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left"}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2), layout="constrained")
        revenue: dict[str, dict[str, float]] = defaultdict(dict)
        for row in tables["revenue_by_day"].to_pylist():
            revenue[row["shop"]][f"{row['day']:%a %d}"] = float(row["revenue"])
        days = list(dict.fromkeys(f"{day:%a %d}" for day in tables["revenue_by_day"]["day"].to_pylist()))
        below = [0.0] * len(days)
        for (shop, of_day), colour in zip(sorted(revenue.items()), COLOURS, strict=True):
            values = [of_day.get(day, 0.0) for day in days]
            left.bar(days, values, bottom=below, color=colour, label=shop, width=0.7)
            below = [under + value for under, value in zip(below, values, strict=True)]
        left.yaxis.set_major_formatter("{x:,.0f}")
        left.set_title("Revenue by day, EUR")
        left.legend(frameon=False, ncols=3, loc="upper left")
        left.set_ylim(0, max(below) * 1.2)
        products = list(reversed(tables["products"].to_pylist()))
        bars = right.barh(
            [row["product"] for row in products], [float(row["revenue"]) for row in products], color="#56b4e9"
        )
        labels = [f"{row['revenue']:,.0f} ({row['sold']:,} sold)" for row in products]
        right.bar_label(bars, labels, padding=4)
        right.set_xlim(0, max(float(row["revenue"]) for row in products) * 1.5)
        right.set_xticks([])
        right.spines["bottom"].set_visible(False)
        right.set_title("Revenue by product, EUR")
        figure.savefig(path, dpi=110)
        plt.close(figure)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "lake")
