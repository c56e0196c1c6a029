//! The ways to attach programs to tracepoints.

/// How the programs are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Attach {
    /// `Btf` if the kernel supports it, otherwise `Raw`, or `Classic` without BTF.
    #[default]
    Auto,
    /// BTF-typed tracepoints (tp_btf): cheaper.
    Btf,
    /// Raw tracepoints (raw_tp): on any kernel with BTF.
    Raw,
    /// Classic tracepoints: without BTF, and without process ids, policies and cgroups.
    Classic,
}
