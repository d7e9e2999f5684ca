"""How the JVM of a test runs."""

# Plans that run once or twice are not worth the best code: that costs more than it saves, and another core.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
