// DataContractSerializer as an oracle: the objects of the cases, and how .NET writes and reads them.
using System; using System.Collections.Generic; using System.IO; using System.Linq; using System.Runtime.Serialization; using System.Text; using System.Xml; using System.Xml.Schema;

[DataContract(Namespace = Contracts.Shop)] public enum Color { [EnumMember] RED, [EnumMember] GREEN }
[Flags, DataContract(Namespace = Contracts.Shop)] public enum Toppings { [EnumMember] CHEESE = 1, [EnumMember] OLIVES = 2 }
[DataContract(Namespace = Contracts.Shop)] public class Line { [DataMember] public string Item; [DataMember] public int Count; }
[DataContract(Namespace = Contracts.Other)] public class Customer { [DataMember] public string Name; [DataMember] public Line Last; }
[DataContract(Namespace = Contracts.Shop)] [KnownType(typeof(Dog))] [KnownType(typeof(Puppy))] public class Animal { [DataMember] public string Name; }
[DataContract(Namespace = Contracts.Other)] public class Dog : Animal { [DataMember] public int Age; [DataMember] public bool Barks; }
[DataContract(Namespace = Contracts.Other)] public class Puppy : Dog { [DataMember] public string Aunt; }

[DataContract(Namespace = Contracts.Shop)] public class Scalars {
  [DataMember] public bool Flag; [DataMember] public int Int; [DataMember] public long Long; [DataMember] public double Double; [DataMember] public double Whole; [DataMember] public decimal Money;
  [DataMember] public string Text; [DataMember] public string Empty; [DataMember] public string Null; [DataMember] public DateTime Utc; [DataMember] public DateTime Unspecified;
  [DataMember] public Guid Key; [DataMember] public TimeSpan Span; [DataMember] public byte[] Blob; [DataMember] public int? Maybe; [DataMember] public int? Perhaps; [DataMember] public Color Color; [DataMember] public Toppings Toppings; }
[DataContract(Namespace = Contracts.Shop)] public class Lists {
  [DataMember] public List<int> Ints; [DataMember] public List<long> Longs; [DataMember] public string[] Texts; [DataMember] public List<bool> Flags; [DataMember] public List<double> Doubles; [DataMember] public List<decimal> Moneys;
  [DataMember] public List<DateTime> Moments; [DataMember] public List<Guid> Keys; [DataMember] public List<TimeSpan> Spans; [DataMember] public List<byte[]> Blobs; [DataMember] public List<Color> Colors;
  [DataMember] public List<Line> Lines; [DataMember] public List<List<int>> Nested; [DataMember] public List<List<Line>> Deep; [DataMember] public List<int?> Holes; [DataMember] public List<int> Empty; [DataMember] public List<int> Null; }
[DataContract(Namespace = Contracts.Shop)] public class Nested { [DataMember] public Customer Customer; [DataMember] public Line Line; [DataMember] public Nested Next; }
[DataContract(Namespace = Contracts.Shop)] public class Ordered {
  [DataMember(Order = 2)] public int Alpha; [DataMember(Order = 1)] public int Zulu; [DataMember] public int b; [DataMember] public int A; [DataMember(EmitDefaultValue = false)] public int Quiet; [DataMember(Name = "Renamed")] public int Original; }
[DataContract(Namespace = Contracts.Shop)] public class Zoo { [DataMember] public Animal First; [DataMember] public Animal Second; [DataMember] public Dog Third; [DataMember] public List<Animal> All; [DataMember] public Animal Nobody; }
[DataContract(Namespace = Contracts.Shop)] [KnownType(typeof(Line))] public class Anything { [DataMember] public object Number; [DataMember] public object Text; [DataMember] public object Line; [DataMember] public object Null; [DataMember] public List<object> Mixed; }

static class Contracts {
  public const string Shop = "http://schemas.datacontract.org/2004/07/Shop", Other = "http://example.org/other", Service = "http://example.org/";
  static readonly DateTime utc = new DateTime(2024, 2, 29, 12, 0, 0, DateTimeKind.Utc).AddTicks(1234560), plain = new DateTime(2024, 2, 29, 12, 0, 0, DateTimeKind.Unspecified);
  static readonly Guid key = new Guid("00112233-4455-6677-8899-aabbccddeeff");
  static Line Tea(int n) { return new Line { Item = "tea", Count = n }; }
  static readonly Dictionary<string, object> cases = new Dictionary<string, object> {
    {"scalars", new Scalars { Flag = true, Int = -7, Long = 1L << 40, Double = 0.1, Whole = 3, Money = 12.30m, Text = "tea & <cake> \u4e16", Empty = "", Utc = utc, Unspecified = plain, Key = key, Span = TimeSpan.FromSeconds(90), Blob = new byte[] {1, 2, 3, 4, 5}, Maybe = 5, Color = Color.GREEN, Toppings = Toppings.CHEESE | Toppings.OLIVES }},
    {"lists", new Lists { Ints = new List<int> {1, -2, 300}, Longs = new List<long> {1, 1L << 40}, Texts = new[] {"a", "", null}, Flags = new List<bool> {true, false}, Doubles = new List<double> {1.5, 0.1}, Moneys = new List<decimal> {1.50m}, Moments = new List<DateTime> {utc}, Keys = new List<Guid> {key},
      Spans = new List<TimeSpan> {TimeSpan.FromSeconds(90)}, Blobs = new List<byte[]> {new byte[] {1, 2}}, Colors = new List<Color> {Color.RED, Color.GREEN}, Lines = new List<Line> {Tea(1), null, Tea(2)}, Nested = new List<List<int>> {new List<int> {1}, new List<int>()}, Deep = new List<List<Line>> {new List<Line> {Tea(3)}}, Holes = new List<int?> {1, null}, Empty = new List<int>() }},
    {"nested", new Nested { Customer = new Customer { Name = "Miller", Last = Tea(4) }, Line = Tea(5), Next = new Nested { Line = Tea(6) } }},
    {"ordered", new Ordered { Alpha = 1, Zulu = 2, b = 3, A = 4, Original = 5 }},
    {"zoo", new Zoo { First = new Animal { Name = "cow" }, Second = new Dog { Name = "rex", Age = 3, Barks = true }, Third = new Puppy { Name = "pup", Age = 1, Aunt = "ann" }, All = new List<Animal> { new Animal { Name = "a" }, new Dog { Name = "d" }, new Puppy { Name = "p" } } }},
    {"anything", new Anything { Number = 7, Text = "tea", Line = Tea(7), Mixed = new List<object> {1, "two", 2.5, true, utc, null} }},
  };
  static byte[] Write(string name, object value) {
    var ms = new MemoryStream(); var w = XmlDictionaryWriter.CreateTextWriter(ms, new UTF8Encoding(false), false);
    new DataContractSerializer(cases[name].GetType(), "value", Service).WriteObject(w, value); w.Flush(); return ms.ToArray(); }
  static byte[] WriteBinary(string name) {
    var ms = new MemoryStream(); var w = XmlDictionaryWriter.CreateBinaryWriter(ms, null, null, false);
    new DataContractSerializer(cases[name].GetType(), "value", Service).WriteObject(w, cases[name]); w.Flush(); return ms.ToArray(); }
  static object Read(string name, byte[] xml) {
    using (var r = XmlDictionaryReader.CreateTextReader(xml, XmlDictionaryReaderQuotas.Max)) return new DataContractSerializer(cases[name].GetType(), "value", Service).ReadObject(r, true); }
  static string Export(string name) {
    var exporter = new XsdDataContractExporter(); exporter.Export(cases[name].GetType()); var text = new StringWriter();
    foreach (XmlSchema each in exporter.Schemas.Schemas()) if (each.TargetNamespace != XmlSchema.Namespace && each.TargetNamespace != "http://schemas.microsoft.com/2003/10/Serialization/") each.Write(text);
    return "\"xml\":" + Oracle.J(text.ToString()); }
  static string Schema(byte[] wsdl, byte[] body) {
    var set = new XmlSchemaSet { XmlResolver = null }; var problems = new List<string>(); set.ValidationEventHandler += (s, e) => problems.Add(e.Message);
    var document = new XmlDocument(); document.Load(new MemoryStream(wsdl));
    foreach (XmlElement each in document.GetElementsByTagName("schema", XmlSchema.Namespace)) using (var r = new XmlNodeReader(each)) set.Add(XmlSchema.Read(r, (s, e) => problems.Add(e.Message)));
    set.Compile();
    var settings = new XmlReaderSettings { ValidationType = ValidationType.Schema, Schemas = set }; settings.ValidationFlags |= XmlSchemaValidationFlags.ReportValidationWarnings; settings.ValidationEventHandler += (s, e) => problems.Add(e.Message);
    using (var r = XmlReader.Create(new MemoryStream(body), settings)) while (r.Read()) { }
    return "\"problems\":[" + string.Join(",", problems.Select(Oracle.J)) + "]"; }
  // contract write CASE | contract read CASE BASE64XML (what is read is written again) | contract schema BASE64WSDL BASE64XML
  public static string Answer(string[] f) {
    if (f[1] == "write") return "\"xml\":" + Oracle.J(Encoding.UTF8.GetString(Write(f[2], cases[f[2]]))) + ",\"hex\":" + Oracle.J(Oracle.Hex(WriteBinary(f[2])));
    if (f[1] == "read") return "\"xml\":" + Oracle.J(Encoding.UTF8.GetString(Write(f[2], Read(f[2], Convert.FromBase64String(f[3])))));
    if (f[1] == "export") return Export(f[2]);
    if (f[1] == "schema") return Schema(Convert.FromBase64String(f[2]), Convert.FromBase64String(f[3]));
    throw new ArgumentException("unknown command"); }
}
