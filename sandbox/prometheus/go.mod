module compaction.dev/sandbox/prometheus

go 1.24

require github.com/prometheus-operator/prometheus-operator v0.81.0
