//! The accessors as LLVM IR.
//!
//! An access is a call of `llvm.preserve.struct.access.index`, which LLVM's BPF backend turns into an
//! address computation with a CO-RE relocation. The backend takes the names of the structure and the
//! field from the debug information attached to the call (LLVM: `BPFAbstractMemberAccess.cpp`).

use std::{collections::HashMap, fmt::Write as _};

use crate::{
    layout,
    types::{Element, Structure, Type, TypeKind},
};

/// `source_filename` must come first: bpf-linker recognizes LLVM IR by it.
const PRELUDE: &str = "\
source_filename = \"core.ll\"

declare ptr @llvm.preserve.struct.access.index.p0.p0(ptr, i32 immarg, i32 immarg)
declare i32 @llvm.bpf.preserve.field.info.p0(ptr, i64 immarg)
";

/// `BPF_FIELD_EXISTS` among the kinds of field information (LLVM: `BPFCORE.h`).
const FIELD_EXISTS: u32 = 2;

/// `BPF_FIELD_BYTE_SIZE` among the kinds of field information (LLVM: `BPFCORE.h`).
const FIELD_BYTE_SIZE: u32 = 1;

/// The symbol of a field's accessor. Because of the dots it cannot collide with a name in C or Rust.
pub(crate) fn symbol(structure: &str, field: &str) -> String {
    format!("core.{structure}.{field}")
}

/// Writes the module.
pub(crate) fn write(structures: &[Structure]) -> String {
    let mut debug_info = DebugInfo::new(structures);
    let mut ir = PRELUDE.to_owned();
    for structure in structures {
        let node = debug_info.structure(structure);
        ir.push('\n');
        ir.push_str(&definitions(structure, node));
    }
    ir + "\n" + &debug_info.text()
}

/// The structure's type and its fields' accessors.
fn definitions(Structure { name, fields }: &Structure, node: Node) -> String {
    let body: Vec<_> = fields.iter().map(|field| ir_type(field.ty)).collect();
    let mut ir = format!("%{name} = type {{ {} }}\n", body.join(", "));
    for (index, field) in fields.iter().enumerate() {
        let symbol = symbol(name, &field.name);
        let access = format!(
            "call ptr @llvm.preserve.struct.access.index.p0.p0(ptr elementtype(%{name}) %this, i32 {index}, i32 {index}), \
             !llvm.preserve.access.index {node}"
        );
        let null_access = access.replace("%this", "null");
        // LLVM cannot look into inline assembly, so it cannot fold the address into a load.
        let address = match field.ty.0 {
            TypeKind::AnyWidth(_) => "  %address = call ptr asm \"\", \"=r,0\"(ptr %field)\n  ret ptr %address",
            _ => "  ret ptr %field",
        };
        _ = write!(
            ir,
            "
define ptr @{symbol}(ptr %this) alwaysinline {{
  %field = {access}
{address}
}}

define i32 @{symbol}.exists() alwaysinline {{
  %field = {null_access}
  %exists = call i32 @llvm.bpf.preserve.field.info.p0(ptr %field, i64 {FIELD_EXISTS})
  ret i32 %exists
}}
"
        );
        if let TypeKind::AnyWidth(_) = field.ty.0 {
            _ = write!(
                ir,
                "
define i32 @{symbol}.size() alwaysinline {{
  %field = {null_access}
  %size = call i32 @llvm.bpf.preserve.field.info.p0(ptr %field, i64 {FIELD_BYTE_SIZE})
  ret i32 %size
}}
"
            );
        }
    }
    ir
}

fn ir_type(ty: Type) -> String {
    let element = |element| match element {
        Element::Scalar(scalar) => format!("i{}", scalar.bits),
        Element::Pointer(_) => "ptr".to_owned(),
    };
    match ty.0 {
        TypeKind::One(one) => element(one),
        TypeKind::AnyWidth(scalar) => element(Element::Scalar(scalar)),
        TypeKind::Array(of, len) => format!("[{len} x {}]", element(of)),
        TypeKind::Embedded(structure) => format!("%{structure}"),
        TypeKind::NestedArray => unreachable!("checked: arrays hold elements"),
    }
}

/// The number of a metadata node.
#[derive(Clone, Copy)]
struct Node(usize);

impl std::fmt::Display for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "!{}", self.0)
    }
}

/// The debug information of the table's types.
struct DebugInfo<'a> {
    structures: &'a [Structure],
    /// Nodes of structures, reserved up front: fields refer to later structures, and to their own.
    structure_nodes: HashMap<&'a str, Node>,
    scalar_nodes: HashMap<&'static str, Node>,
    /// The nodes' text, by number.
    nodes: Vec<String>,
}

impl<'a> DebugInfo<'a> {
    fn new(structures: &'a [Structure]) -> Self {
        let mut this = Self {
            structures,
            structure_nodes: HashMap::new(),
            scalar_nodes: HashMap::new(),
            // Without the version, LLVM drops all debug information.
            nodes: vec!["!{i32 2, !\"Debug Info Version\", i32 3}".to_owned()],
        };
        for structure in structures {
            let node = this.node(String::new());
            this.structure_nodes.insert(&structure.name, node);
        }
        this
    }

    fn node(&mut self, text: String) -> Node {
        self.nodes.push(text);
        Node(self.nodes.len() - 1)
    }

    fn structure(&mut self, structure: &Structure) -> Node {
        let this = self.structure_nodes[structure.name.as_str()];
        let (extent, offsets) = layout::struct_layout(self.structures, structure);
        let mut members = vec![];
        for (field, offset) in structure.fields.iter().zip(offsets) {
            let ty = self.ty(field.ty);
            let size = layout::type_layout(self.structures, field.ty).size;
            let member = self.node(format!(
                "!DIDerivedType(tag: DW_TAG_member, name: \"{}\", scope: {this}, baseType: {ty}, size: {size}, offset: {offset})",
                field.name
            ));
            members.push(member.to_string());
        }
        let members = self.node(format!("!{{{}}}", members.join(", ")));
        self.nodes[this.0] = format!(
            "!DICompositeType(tag: DW_TAG_structure_type, name: \"{}\", size: {}, elements: {members})",
            structure.name, extent.size
        );
        this
    }

    fn ty(&mut self, ty: Type) -> Node {
        match ty.0 {
            TypeKind::One(element) => self.element(element),
            TypeKind::AnyWidth(scalar) => self.element(Element::Scalar(scalar)),
            TypeKind::Array(element, len) => {
                let size = layout::type_layout(self.structures, ty).size;
                let element = self.element(element);
                let range = self.node(format!("!DISubrange(count: {len})"));
                let ranges = self.node(format!("!{{{range}}}"));
                self.node(format!(
                    "!DICompositeType(tag: DW_TAG_array_type, baseType: {element}, size: {size}, elements: {ranges})"
                ))
            }
            TypeKind::Embedded(structure) => self.structure_nodes[structure],
            TypeKind::NestedArray => unreachable!("checked: arrays hold elements"),
        }
    }

    fn element(&mut self, element: Element) -> Node {
        match element {
            Element::Scalar(scalar) => {
                if let Some(node) = self.scalar_nodes.get(scalar.c) {
                    return *node;
                }
                let node = self.node(format!(
                    "!DIBasicType(name: \"{}\", size: {}, encoding: {})",
                    scalar.c, scalar.bits, scalar.encoding
                ));
                self.scalar_nodes.insert(scalar.c, node);
                node
            }
            // `void *`: to the loader, all pointers are the same.
            Element::Pointer(_) => {
                self.node("!DIDerivedType(tag: DW_TAG_pointer_type, baseType: null, size: 64)".to_owned())
            }
        }
    }

    fn text(&self) -> String {
        let mut text = "!llvm.module.flags = !{!0}\n".to_owned();
        for (number, node) in self.nodes.iter().enumerate() {
            _ = writeln!(text, "{} = {node}", Node(number));
        }
        text
    }
}
