//! Sizes and offsets of the table's own, made-up layout: what debug information has to say about any structure.
//!
//! None of it outlives the loader, which puts the running kernel's numbers in place of these.

use crate::types::{Element, Kind, Structure, Type};

/// What a type takes up, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) size: usize,
    pub(crate) align: usize,
}

/// The extent of a type.
pub(crate) fn of_type(structures: &[Structure], ty: Type) -> Extent {
    match ty.0 {
        Kind::One(element) => of_element(element),
        Kind::AnyWidth(scalar) => of_element(Element::Scalar(scalar)),
        Kind::Array(element, len) => {
            let Extent { size, align } = of_element(element);
            Extent { size: size * len, align }
        }
        Kind::Embedded(name) => {
            let structure = structures.iter().find(|structure| structure.name == name);
            of_structure(structures, structure.expect("checked: the structure is in the table")).0
        }
        Kind::NestedArray => unreachable!("checked: arrays hold elements"),
    }
}

/// The extent of one element.
pub(crate) fn of_element(element: Element) -> Extent {
    let size = match element {
        Element::Scalar(scalar) => scalar.bits,
        Element::Pointer(_) => 64,
    };
    Extent { size, align: size }
}

/// The extent of a structure, and its fields' offsets in bits.
pub(crate) fn of_structure(structures: &[Structure], structure: &Structure) -> (Extent, Vec<usize>) {
    let mut whole = Extent { size: 0, align: 8 };
    let mut offsets = vec![];
    for field in &structure.fields {
        let extent = of_type(structures, field.ty);
        let offset = whole.size.next_multiple_of(extent.align);
        offsets.push(offset);
        whole = Extent { size: offset + extent.size, align: whole.align.max(extent.align) };
    }
    whole.size = whole.size.next_multiple_of(whole.align);
    (whole, offsets)
}
