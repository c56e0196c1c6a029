//! Accessors find the fields that they name, in kernels with another layout than the table's.

mod btf;
mod program;

use aya_obj::btf::Btf;
use btf::TargetKernel;
use co_re_accessors::{AccessorTable, CHAR, I32, I64, U32, U64, array, embedded, pointer};
use program::{Program, RunOutcome::*, exists, link, load, offset, relocated, run};

/// The table used by all tests.
fn table() -> AccessorTable {
    AccessorTable::new()
        .structure(
            "task_struct",
            [
                ("pid", I32),
                ("__state", U32),
                ("comm", array(CHAR, 16)),
                ("cgroups", pointer("css_set")),
                ("thread_info", embedded("thread_info")),
            ],
        )
        .structure("task_struct___pre_5_14", [("state", I64)])
        .structure("task_struct___pre_5_16", [("cpu", U32)])
        .structure("thread_info", [("cpu", U32)])
        .structure("css_set", [("dfl_cgrp", pointer("cgroup"))])
        .structure("cgroup", [("self", embedded("cgroup_subsys_state")), ("level", I32)])
        .structure("cgroup_subsys_state", [("cgroup", pointer("cgroup"))])
        .structure("kernfs_node", [("id", U64)])
}

/// A kernel as of 5.16: `__state`, and the processor in `thread_info`.
fn new_kernel() -> Btf {
    let mut kernel = TargetKernel::new();
    let int = kernel.int("int", 4, true);
    let unsigned = kernel.int("unsigned int", 4, false);
    let char = kernel.int("char", 1, true);
    let u64 = kernel.int("long long unsigned int", 8, false);
    let comm = kernel.array(char, 16);
    let css = kernel.structure("cgroup_subsys_state", &[("cgroup", 0, 0)]);
    let cgroup = kernel.structure("cgroup", &[("self", css, 24), ("level", int, 304)]);
    let cgroup_pointer = kernel.pointer(cgroup);
    let css_set = kernel.structure("css_set", &[("dfl_cgrp", cgroup_pointer, 136)]);
    let css_set_pointer = kernel.pointer(css_set);
    let thread_info = kernel.structure("thread_info", &[("flags", u64, 0), ("cpu", unsigned, 20)]);
    kernel.structure("kernfs_node", &[("id", u64, 96)]);
    kernel.structure(
        "task_struct",
        &[
            ("thread_info", thread_info, 8),
            ("__state", unsigned, 32),
            ("pid", int, 2480),
            ("cgroups", css_set_pointer, 3400),
            ("comm", comm, 3008),
        ],
    );
    kernel.btf()
}

/// A kernel before 5.14: `state`, the processor in `task_struct`, and the node's ID in an anonymous
/// union.
fn old_kernel() -> Btf {
    let mut kernel = TargetKernel::new();
    let int = kernel.int("int", 4, true);
    let unsigned = kernel.int("unsigned int", 4, false);
    let long = kernel.int("long", 8, true);
    let u64 = kernel.int("long long unsigned int", 8, false);
    let state = kernel.volatile(long);
    let number = kernel.structure("", &[("generation", unsigned, 0), ("id", u64, 8)]);
    let node = kernel.union("", &[("number", u64, 0), ("", number, 8)]);
    kernel.structure("kernfs_node", &[("", node, 64)]);
    kernel.structure("thread_info", &[("flags", u64, 0)]);
    kernel.structure("task_struct", &[("state", state, 16), ("cpu", unsigned, 60), ("pid", int, 1264)]);
    kernel.btf()
}

#[test]
fn a_field_is_found_where_the_kernel_has_it() {
    let programs = [
        offset("pid", "task_struct.pid"),
        offset("comm", "task_struct.comm"),
        offset("cgroups", "task_struct.cgroups"),
        offset("thread_info", "task_struct.thread_info"),
        offset("dfl_cgrp", "css_set.dfl_cgrp"),
        offset("self", "cgroup.self"),
        offset("level", "cgroup.level"),
    ];
    let object = link("a_field_is_found_where_the_kernel_has_it", &table(), &programs);
    let expected = [2480, 3008, 3400, 8, 136, 24, 304];
    for (program, offset) in programs.iter().zip(expected) {
        assert_eq!(run(&object, &new_kernel(), program.name), Returned(offset), "{}", program.name);
    }
    assert_eq!(run(&object, &old_kernel(), "pid"), Returned(1264));
}

#[test]
fn a_field_is_found_in_anonymous_structs_and_unions() {
    let object = link("a_field_is_found_in_anonymous_structs_and_unions", &table(), &[offset("id", "kernfs_node.id")]);
    assert_eq!(run(&object, &new_kernel(), "id"), Returned(96));
    assert_eq!(run(&object, &old_kernel(), "id"), Returned(64 + 8 + 8));
}

#[test]
fn a_field_of_an_embedded_structure_is_found() {
    let chain = Program {
        name: "chain",
        body: "  %a = call ptr @core.task_struct.thread_info(ptr %this)
  %b = call ptr @core.thread_info.cpu(ptr %a)
  %r = ptrtoint ptr %b to i64
  ret i64 %r"
            .to_owned(),
    };
    let object = link("a_field_of_an_embedded_structure_is_found", &table(), &[chain]);
    assert_eq!(run(&object, &new_kernel(), "chain"), Returned(8 + 20));
}

#[test]
fn a_flavour_is_the_same_structure() {
    let programs = [offset("state", "task_struct___pre_5_14.state"), offset("cpu", "task_struct___pre_5_16.cpu")];
    let object = link("a_flavour_is_the_same_structure", &table(), &programs);
    assert_eq!(run(&object, &old_kernel(), "state"), Returned(16));
    assert_eq!(run(&object, &old_kernel(), "cpu"), Returned(60));
}

#[test]
fn a_field_exists_where_the_kernel_has_it() {
    let programs = [
        exists("pid", "task_struct.pid"),
        exists("new_state", "task_struct.__state"),
        exists("old_state", "task_struct___pre_5_14.state"),
        exists("new_cpu", "thread_info.cpu"),
        exists("old_cpu", "task_struct___pre_5_16.cpu"),
        exists("dfl_cgrp", "css_set.dfl_cgrp"),
    ];
    let object = link("a_field_exists_where_the_kernel_has_it", &table(), &programs);
    let expected = [("pid", 1, 1), ("new_state", 1, 0), ("old_state", 0, 1), ("new_cpu", 1, 0), ("old_cpu", 0, 1)];
    // The old kernel lacks the whole of `css_set`.
    for (program, new, old) in expected.into_iter().chain([("dfl_cgrp", 1, 0)]) {
        assert_eq!(run(&object, &new_kernel(), program), Returned(new), "new: {program}");
        assert_eq!(run(&object, &old_kernel(), program), Returned(old), "old: {program}");
    }
}

#[test]
fn access_to_a_field_that_is_not_there_is_an_invalid_instruction() {
    let programs = [offset("new_state", "task_struct.__state"), load("dfl_cgrp", "css_set.dfl_cgrp", "i64")];
    let object = link("access_to_a_field_that_is_not_there_is_an_invalid_instruction", &table(), &programs);
    assert_eq!(run(&object, &old_kernel(), "new_state"), Poisoned);
    assert_eq!(run(&object, &old_kernel(), "dfl_cgrp"), Poisoned);
}

#[test]
fn a_read_is_one_load() {
    let programs = [load("pid", "task_struct.pid", "i32"), load("id", "kernfs_node.id", "i64")];
    let object = link("a_read_is_one_load", &table(), &programs);
    assert_eq!(run(&object, &new_kernel(), "pid"), Loaded(4, 2480));
    assert_eq!(run(&object, &new_kernel(), "id"), Loaded(8, 96));
    // The load and the exit.
    assert_eq!(relocated(&object, &new_kernel(), "pid").len(), 2);
}

#[test]
fn an_unsigned_field_is_read_at_the_width_it_has() {
    let object =
        link("an_unsigned_field_is_read_at_the_width_it_has", &table(), &[load("state", "task_struct.__state", "i32")]);
    let mut kernel = TargetKernel::new();
    let long = kernel.int("unsigned long", 8, false);
    kernel.structure("task_struct", &[("__state", long, 40)]);
    assert_eq!(run(&object, &kernel.btf(), "state"), Loaded(8, 40));
}

/// A loop that reads one field or the other, depending on which exists; the store keeps LLVM from
/// splitting the loop in two.
const GUARDED: &str = "entry:
  %other = load ptr, ptr %this, align 8
  %out = load ptr, ptr %other, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %join ]
  %sum = phi i32 [ 0, %entry ], [ %added, %join ]
  %bit = and i32 %sum, 1
  %odd = icmp eq i32 %bit, 1
  %a = select i1 %odd, ptr %this, ptr %other
  %e = call i32 @core.task_struct.__state.exists()
  %exists = icmp ne i32 %e, 0
  br i1 %exists, label %new, label %old
new:
  %new.field = call ptr @core.task_struct.__state(ptr %a)
  %new.value = load i32, ptr %new.field, align 4
  br label %join
old:
  %old.field = call ptr @core.task_struct.pid(ptr %a)
  %old.value = load i32, ptr %old.field, align 4
  br label %join
join:
  %value = phi i32 [ %new.value, %new ], [ %old.value, %old ]
  %added = add i32 %sum, %value
  store i32 %added, ptr %out, align 4
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 63
  br i1 %more, label %loop, label %end
end:
  ret i64 0";

#[test]
fn an_access_in_a_loop_stays_behind_its_exists_check() {
    let guarded = Program { name: "guarded", body: GUARDED.to_owned() };
    let object = link("an_access_in_a_loop_stays_behind_its_exists_check", &table(), &[guarded]);
    let instructions = relocated(&object, &old_kernel(), "guarded");
    let position = |wanted: fn(u8) -> bool| instructions.iter().position(|instruction| wanted(instruction.code));
    let check = position(|code| code == 0x15 || code == 0x55).expect("a conditional jump");
    let invalid = position(|code| code == 0x85).expect("an access to a field that is not there");
    assert!(check < invalid, "{instructions:?}");
}
