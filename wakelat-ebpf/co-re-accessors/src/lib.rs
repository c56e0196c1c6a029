//! Access to fields of kernel structures for BPF programs written in Rust, at whatever offset the running kernel has
//! them (CO-RE: compile once, run everywhere).
//!
//! A field sits at another offset in nearly every kernel, so an offset taken from the machine that compiled a
//! program is wrong elsewhere. In C, `__builtin_preserve_access_index` makes clang leave a *relocation* at
//! each access, and the loader (libbpf, aya) patches the instruction with the offset found in the running
//! kernel's BTF. rustc has no such builtin, but LLVM, which implements it, does: from a build script, this
//! crate writes one LLVM IR function for each field named in a table, and Rust declarations to call them.
//! bpf-linker links the two and inlines the functions; what is left of an access is the one load that clang
//! would have emitted, including the relocation. No C code, clang or generated bindings are needed.
//!
//! # Example
//!
//! The build script of a BPF crate lists the fields that the crate reads, one per row:
//!
//! ```no_run
//! use co_re_accessors::{AccessorTable, CHAR, I32, I64, U32, U64, array, embedded, pointer};
//!
//! AccessorTable::new()
//!     .structure("task_struct", [
//!         ("pid", I32),
//!         ("comm", array(CHAR, 16)),
//!         ("__state", U32),
//!         ("cgroups", pointer("css_set")),
//!         ("thread_info", embedded("thread_info")),
//!     ])
//!     .structure("task_struct___pre_5_14", [("state", I64)])
//!     .structure("thread_info", [("cpu", U32)])
//!     .structure("css_set", [("dfl_cgrp", pointer("cgroup"))])
//!     .structure("cgroup", [("kn", pointer("kernfs_node"))])
//!     .structure("kernfs_node", [("id", U64)])
//!     .write_for_build_script();
//! ```
//!
//! The program includes the generated code. Accessors compute addresses, like `&task->pid` in C, and can be chained:
//!
//! ```text
//! mod kernel {
//!     include!(concat!(env!("OUT_DIR"), "/core.rs"));
//! }
//! use kernel::{css_set, task_struct, task_struct___pre_5_14, thread_info};
//!
//! #[btf_tracepoint(function = "sched_wakeup")]
//! pub fn sched_wakeup(ctx: BtfTracePointContext) -> i32 {
//!     let task: *const task_struct = ctx.arg(0);
//!     let pid = unsafe { *task_struct::pid(task) };
//!     let cpu = unsafe { *thread_info::cpu(task_struct::thread_info(task)) };
//!     let cgroup = unsafe { *css_set::dfl_cgrp(*task_struct::cgroups(task)) };
//!     let state = if task_struct::__state_exists() {
//!         unsafe { *task_struct::__state(task) }.into()
//!     } else {
//!         unsafe { *task_struct___pre_5_14::state(task.cast()) }
//!     };
//!     // …
//! }
//! ```
//!
//! Plain loads, as here, work in programs for whose pointers the verifier knows the type (`tp_btf`, `fentry`, `iter`).
//! In others (`raw_tp`, `kprobe`, `perf_event`), pass the address to `bpf_probe_read_kernel`.
//!
//! # What is generated
//!
//! For each structure an opaque type of the same name, and for each field two inlined functions of that type:
//!
//! | row | accessor | whether the kernel has the field |
//! |---|---|---|
//! | `("pid", I32)` | `pid(this: *const Self) -> *const i32` | `pid_exists() -> bool` |
//! | `("comm", array(CHAR, 16))` | `comm(this: *const Self) -> *const [u8; 16]` | `comm_exists() -> bool` |
//! | `("cgroups", pointer("css_set"))` | `cgroups(this: *const Self) -> *const *const css_set` | `cgroups_exists() -> bool` |
//! | `("thread_info", embedded("thread_info"))` | `thread_info(this: *const Self) -> *const thread_info` | `thread_info_exists() -> bool` |
//!
//! - A field is found by its name, wherever it is, including in anonymous structs and unions. Rows need
//!   neither the kernel's order nor its other fields.
//! - Everything from `___` on in a structure's name is its *flavour*, which the loader ignores: it allows two
//!   layouts of one structure in the same table. Cast the pointer to go from one to the other.
//! - If the kernel has no such field, the loader replaces the access by an invalid instruction, which the
//!   verifier rejects if it is reachable. `FIELD_exists()` is a constant by then: the verifier never looks at
//!   code behind it.
//! - A name that is reserved in Rust gets an underscore: `cgroup.self` is `cgroup::self_`, in the kernel
//!   still `self`.
//! - A type only states the kind of a field; sign and width may differ. A load reads an unsigned number or a
//!   pointer at the width that it has in the running kernel; `bpf_probe_read_kernel` reads the width in the
//!   table.
//! - Bit fields and fields of an `enum` type are not supported; the latter because to the loader no number is
//!   an `enum`.
//!
//! # Building the program
//!
//! Use [bpf-linker](https://github.com/aya-rs/bpf-linker), debug information (from which the BTF is generated) and
//! `-Clink-arg=--btf`:
//!
//! ```text
//! RUSTFLAGS="-Cdebuginfo=2 -Clink-arg=--btf" cargo build --target bpfel-unknown-none …
//! ```
//!
//! The build script passes the rest to bpf-linker: the module with the accessors, and [`LINKER_ARGS`].
//!
//! For any other target the accessors compile and panic when called, so that clippy, rustfmt and the workspace's
//! `cargo build` can process a BPF crate.

mod build_script;
mod check;
mod ir;
mod layout;
mod rust;
mod types;

pub use build_script::LINKER_ARGS;
pub use check::Error;
pub use types::{BOOL, CHAR, I8, I16, I32, I64, Type, U8, U16, U32, U64, any_width, array, embedded, pointer};
use types::{StructField, Structure};

/// The structures and fields of the kernel that a BPF program reads.
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is written before `write_for_build_script`"]
pub struct AccessorTable {
    structures: Vec<Structure>,
}

/// The code generated from an [`AccessorTable`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accessors {
    /// LLVM IR that defines the accessors, for bpf-linker.
    pub llvm_ir: String,
    /// Rust code that declares them, for the BPF program to include.
    pub rust: String,
}

impl AccessorTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `struct name` with the names and types of the fields that are read, in any order.
    ///
    /// A structure that is only pointed to needs no fields.
    pub fn structure(mut self, name: &str, fields: impl IntoIterator<Item = (&'static str, Type)>) -> Self {
        let fields = fields.into_iter().map(|(name, ty)| StructField { name: name.to_owned(), ty }).collect();
        self.structures.push(Structure { name: name.to_owned(), fields });
        self
    }

    /// Generates the accessors. Fails if the table is inconsistent: see [`Error`].
    pub fn accessors(&self) -> Result<Accessors, Error> {
        check::check(&self.structures)?;
        Ok(Accessors { llvm_ir: ir::write(&self.structures), rust: rust::write(&self.structures) })
    }
}
