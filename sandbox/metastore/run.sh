#!/bin/bash
# run.sh [schema]: becomes a Hive metastore (3.1.3, 4.0.1, 4.1.0 or 4.2.0) on embedded Derby or PostgreSQL; its schema is made at the
# first start. With `schema` it only makes the schema.
#   METASTORE_HOME  the folder that fetch.sh filled (default: where this script lies)
#   STATE_DIR       the only folder written to besides /tmp: configuration, database, logs of Derby
#   WAREHOUSE       URI of the warehouse folder, e.g. file:/warehouse
#   PORT            Thrift port (default 9083)
#   HEAP            size of the Java heap (default 320m)
#   HADOOP_CONF     a folder with a core-site.xml, for a warehouse on a store that needs one (default: none)
#   POSTGRES        JDBC URL of a PostgreSQL database that trusts its user postgres and is empty at the first start (default: Derby)
#   TXN_TIMEOUT     seconds after which locks and transactions without a heartbeat are timed out (default 300)
set -euo pipefail
home=${METASTORE_HOME:-$(cd "$(dirname "$0")" && pwd)}
state=${STATE_DIR:?is not set}
warehouse=${WAREHOUSE:?is not set}
port=${PORT:-9083}
timeout=${TXN_TIMEOUT:-300}
conf=$state/conf
database=${POSTGRES:+postgres}
database=${database:-derby}
hive=org.apache.hadoop.hive.metastore
housekeeping_setting=metastore.task.threads.always
case $(cat "$home/version") in
  3.*)
    schema_tool=$hive.tools.MetastoreSchemaTool
    housekeeping=$hive.txn.AcidHouseKeeperService
    ;;
  *)
    schema_tool=$hive.tools.schematool.MetastoreSchemaTool
    housekeeping=$hive.txn.service.AcidHouseKeeperService,$hive.txn.service.AcidTxnCleanerService
    ;;
esac
# NB: since 4.1 the housekeeping is on, with a task of Iceberg's by default, whose class is not here: then Hive would start none.
case $(cat "$home/version") in 4.[12].*) housekeeping_setting=metastore.task.threads.remote ;; esac
umask "${UMASK:-0022}"
mkdir -p "$conf" "$state/tmp"

property() { echo "  <property><name>$1</name><value>$2</value></property>"; }

database_properties() { # folder of Derby's database
  local url="jdbc:derby:;databaseName=$1;create=true" driver=org.apache.derby.jdbc.EmbeddedDriver user=APP
  [ "$database" = derby ] || url=$POSTGRES driver=org.postgresql.Driver user=postgres
  property javax.jdo.option.ConnectionURL "$url"
  property javax.jdo.option.ConnectionDriverName "$driver"
  property javax.jdo.option.ConnectionUserName "$user"
  property javax.jdo.option.ConnectionPassword mine
}

write_configuration() { # folder of Derby's database
  {
    echo "<configuration>"
    database_properties "$1"
    property metastore.warehouse.dir "$warehouse"
    property hive.metastore.warehouse.dir "$warehouse"
    property metastore.thrift.port "$port"
    property metastore.server.min.threads 4
    # NB: a call that locks needs two connections: with fewer than twice the callers they wait for each other for ever.
    property datanucleus.connectionPool.maxPoolSize 20
    property datanucleus.schema.autoCreateAll false
    property hive.metastore.schema.verification true
    property metastore.txn.timeout "${timeout}s"
    # Dead clients' locks must go. Hive starts its housekeeping by itself only together with its compactor's initiator.
    property "$housekeeping_setting" "$housekeeping"
    property metastore.timedout.txn.reaper.interval "$((timeout / 5 + 1))s"
    property metastore.acid.housekeeper.interval "$((timeout / 5 + 1))s"
    property hive.txn.manager org.apache.hadoop.hive.ql.lockmgr.DbTxnManager
    property hive.support.concurrency true
    # Hive's own compactor stays out: two compactors on one table is what this project must never be.
    property metastore.compactor.initiator.on false
    property metastore.compactor.cleaner.on false
    property metastore.compactor.worker.threads 0
    property metastore.execute.setugi true
    property metastore.authorization.storage.checks false
    property metastore.expression.proxy $hive.DefaultPartitionExpressionProxy
    echo "</configuration>"
  } > "$conf/metastore-site.xml"
  cp "$conf/metastore-site.xml" "$conf/hive-site.xml" # which Hive's Cleaner reads, if somebody turns it on
}

write_log_configuration() {
  cat > "$conf/log4j2.properties" <<-'LOG'
	status=WARN
	appenders=console
	appender.console.type=Console
	appender.console.name=console
	appender.console.layout.type=PatternLayout
	appender.console.layout.pattern=%d{ISO8601} %p %c{1}: %m%n
	rootLogger.level=INFO
	rootLogger.appenderRefs=console
	rootLogger.appenderRef.console.ref=console
	LOG
}

# 4.2 needs a newer Java than the machine's, which lies beside it.
java=java
[ ! -d "$home/java" ] || java=$home/java/bin/java
opens=()
for package in lang net util util.concurrent nio io; do opens+=("--add-opens=java.base/java.$package=ALL-UNNAMED"); done
java_options=("${opens[@]}" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss2m "-Xmx${HEAP:-320m}"
  "-Djava.io.tmpdir=$state/tmp" "-Dderby.stream.error.file=$state/derby.log" "-Dlog4j2.configurationFile=$conf/log4j2.properties"
  "-Dlog4j.configurationFile=$conf/log4j2.properties" -cp "$conf:${HADOOP_CONF:+$HADOOP_CONF:}$home/lib/*")

make_schema() {
  "$java" "${java_options[@]}" "$schema_tool" -dbType "$database" -initSchema > "$state/schema.log" 2>&1 \
    || { tail -30 "$state/schema.log" >&2; exit 1; }
}

# Derby's folder gets its name when it is whole, so that a start that was killed begins again. It is slow to make and quick to copy.
init_database() {
  local new=$state/database.new
  rm -rf "$new"
  write_configuration "$new"
  case $database in
    derby) if [ -d "$home/derby" ]; then cp -r "$home/derby" "$new"; else make_schema; fi ;;
    *) make_schema && mkdir "$new" ;;
  esac
  mv "$new" "$state/database"
}

export METASTORE_HOME=$home METASTORE_CONF_DIR=$conf HADOOP_USER_NAME=${HADOOP_USER_NAME:-hive}
cd "$state"
write_log_configuration
[ -d "$state/database" ] || init_database
[ "${1:-}" != schema ] || exit 0
write_configuration "$state/database"
exec "$java" "${java_options[@]}" "$hive.HiveMetaStore" -p "$port"
