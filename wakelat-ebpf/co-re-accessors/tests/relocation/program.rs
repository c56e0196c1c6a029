//! Runs programs that call accessors: written as LLVM IR, linked by bpf-linker, relocated by aya, and
//! run by an interpreter that knows just enough BPF.

use std::{env, fmt::Write as _, fs, path::Path, process::Command};

use aya_obj::{Object, btf::Btf, generated::bpf_insn};
use bpf_toolchain::SearchPaths;
use co_re_accessors::{AccessorTable, LINKER_ARGS};

/// A function of LLVM IR, from `ptr %this` to `i64`.
pub struct Program {
    /// The program's name.
    pub name: &'static str,
    /// The lines of its body.
    pub body: String,
}

/// A program that returns the address that the accessor computes for a structure at 0.
pub fn offset(name: &'static str, accessor: &str) -> Program {
    Program {
        name,
        body: format!("%a = call ptr @core.{accessor}(ptr %this)\n%r = ptrtoint ptr %a to i64\nret i64 %r"),
    }
}

/// A program that returns whether the kernel has the field.
pub fn exists(name: &'static str, accessor: &str) -> Program {
    Program { name, body: format!("%e = call i32 @core.{accessor}.exists()\n%r = zext i32 %e to i64\nret i64 %r") }
}

/// A program that returns the value of the field, of LLVM type `ty`.
pub fn load(name: &'static str, accessor: &str, ty: &str) -> Program {
    let extended = if ty == "i64" { "add i64 %v, 0".to_owned() } else { format!("zext {ty} %v to i64") };
    Program {
        name,
        body: format!(
            "%a = call ptr @core.{accessor}(ptr %this)\n%v = load {ty}, ptr %a, align 8\n%r = {extended}\nret i64 %r"
        ),
    }
}

/// Links programs with the table's accessors.
pub fn link(test: &str, kernel: &AccessorTable, programs: &[Program]) -> Object {
    let linker = SearchPaths::from_environment().linker();
    let linker = linker.expect("bpf-linker is installed: `cargo xtask setup` or `cargo install bpf-linker`");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let path = |name: &str| out.join(format!("{test}.{name}"));
    fs::write(path("core.ll"), kernel.accessors().unwrap().llvm_ir).unwrap();
    fs::write(path("programs.ll"), module(programs)).unwrap();
    let names: Vec<_> = programs.iter().map(|program| program.name).collect();
    let output = Command::new(linker)
        .args(["--target=bpfel", "--btf", "--export", &names.join(",")])
        .args(LINKER_ARGS)
        .arg("--output")
        .args([path("o"), path("programs.ll"), path("core.ll")])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Object::parse(&fs::read(path("o")).unwrap()).unwrap()
}

/// The programs, each in a section of its own, with the debug information that LLVM needs to write BTF.
fn module(programs: &[Program]) -> String {
    let mut ir = "\
source_filename = \"programs.ll\"
!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!1}
!0 = distinct !DICompileUnit(language: DW_LANG_C99, file: !2, emissionKind: FullDebug)
!1 = !{i32 2, !\"Debug Info Version\", i32 3}
!2 = !DIFile(filename: \"programs.c\", directory: \"/\")
!3 = !DISubroutineType(types: !{})
"
    .to_owned();
    for (index, Program { name, body }) in programs.iter().enumerate() {
        _ = writeln!(
            ir,
            "!{node} = distinct !DISubprogram(name: \"{name}\", file: !2, type: !3, unit: !0, spFlags: DISPFlagDefinition)
define i64 @{name}(ptr %this) section \"raw_tp/{name}\" !dbg !{node} {{\n{body}\n}}",
            node = index + 4
        );
    }
    let mut declared: Vec<_> =
        programs.iter().flat_map(|program| program.body.lines()).filter_map(declaration).collect();
    declared.sort();
    declared.dedup();
    ir + &declared.join("\n") + "\n"
}

/// The declaration of the function that a line calls: the call without the names of its arguments.
fn declaration(line: &str) -> Option<String> {
    let (_, call) = line.split_once("= call ")?;
    Some(format!("declare {}", call.replace(" %this", "").replace(" %a", "")))
}

/// How a program ends.
#[derive(Debug, PartialEq, Eq)]
pub enum RunOutcome {
    /// It returns this result.
    Returned(i64),
    /// It loads this many bytes from this address.
    Loaded(usize, i64),
    /// It reaches the instruction that aya puts in place of an access to a missing field.
    Poisoned,
}

/// Relocates the programs for a kernel, and runs the program `name` on a structure at 0.
pub fn run(object: &Object, kernel: &Btf, name: &str) -> RunOutcome {
    interpret(&relocated(object, kernel, name))
}

/// The instructions of a program after relocation for that kernel.
pub fn relocated(object: &Object, kernel: &Btf, name: &str) -> Vec<bpf_insn> {
    let mut object = object.clone();
    object.relocate_btf(kernel).unwrap();
    object.functions.values().find(|function| function.name == name).unwrap().instructions.clone()
}

fn interpret(instructions: &[bpf_insn]) -> RunOutcome {
    // The opcodes: Documentation/bpf/standardization/instruction-set.rst in the kernel's source.
    let mut registers = [0_i64; 11];
    for instruction in instructions {
        let (destination, source) = (instruction.dst_reg() as usize, instruction.src_reg() as usize);
        let (immediate, offset) = (i64::from(instruction.imm), i64::from(instruction.off));
        match instruction.code {
            0xb7 | 0xb4 => registers[destination] = immediate,
            0xbf => registers[destination] = registers[source],
            0x07 => registers[destination] += immediate,
            0x0f => registers[destination] += registers[source],
            0x61 => return RunOutcome::Loaded(4, registers[source] + offset),
            0x79 => return RunOutcome::Loaded(8, registers[source] + offset),
            0x85 => return RunOutcome::Poisoned,
            0x95 => return RunOutcome::Returned(registers[0]),
            other => panic!("opcode {other:#x} in {instructions:?}"),
        }
    }
    panic!("no exit in {instructions:?}")
}
