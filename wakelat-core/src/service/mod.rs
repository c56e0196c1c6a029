//! What a service that measures all the time knows (`wakelat serve`): the totals of each cgroup since it began, those of
//! the last minute, and their exposition as metrics.

pub mod accept;
pub mod capture_condition;
pub mod capture_counts;
pub mod capture_watch;
mod cgroup_labels;
pub mod constant_labels;
mod exemplar;
pub mod exponential;
pub mod export_counts;
pub mod host;
mod merged_groups;
pub mod metric_families;
pub mod metric_family;
pub mod metrics_format;
mod metrics_protobuf;
mod metrics_text;
pub mod neighbours;
pub mod node_pods;
pub mod otlp;
pub mod pod_labels;
pub mod recent;
pub mod request;
pub mod series;
