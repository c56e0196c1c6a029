//! Computes the sizes and offsets of the table's own, made-up layout, which the debug information of a
//! structure must state.
//!
//! None of them survives loading: the loader replaces them by the running kernel's.

use crate::types::{Element, Structure, Type, TypeKind};

/// Size and alignment of a type, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeLayout {
    pub(crate) size: usize,
    pub(crate) align: usize,
}

/// Size and alignment of a type.
pub(crate) fn type_layout(structures: &[Structure], ty: Type) -> TypeLayout {
    match ty.0 {
        TypeKind::One(element) => element_layout(element),
        TypeKind::AnyWidth(scalar) => element_layout(Element::Scalar(scalar)),
        TypeKind::Array(element, len) => {
            let TypeLayout { size, align } = element_layout(element);
            TypeLayout { size: size * len, align }
        }
        TypeKind::Embedded(name) => {
            let structure = structures.iter().find(|structure| structure.name == name);
            struct_layout(structures, structure.expect("checked: the structure is in the table")).0
        }
        TypeKind::NestedArray => unreachable!("checked: arrays hold elements"),
    }
}

/// Size and alignment of one element.
pub(crate) fn element_layout(element: Element) -> TypeLayout {
    let size = match element {
        Element::Scalar(scalar) => scalar.bits,
        Element::Pointer(_) => 64,
    };
    TypeLayout { size, align: size }
}

/// Size and alignment of a structure, and the offsets of its fields in bits.
pub(crate) fn struct_layout(structures: &[Structure], structure: &Structure) -> (TypeLayout, Vec<usize>) {
    let mut whole = TypeLayout { size: 0, align: 8 };
    let mut offsets = vec![];
    for field in &structure.fields {
        let extent = type_layout(structures, field.ty);
        let offset = whole.size.next_multiple_of(extent.align);
        offsets.push(offset);
        whole = TypeLayout { size: offset + extent.size, align: whole.align.max(extent.align) };
    }
    whole.size = whole.size.next_multiple_of(whole.align);
    (whole, offsets)
}
