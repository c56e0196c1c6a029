//! The rows of the table.

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type(pub(crate) TypeKind);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TypeKind {
    One(Element),
    Array(Element, usize),
    Embedded(&'static str),
    /// A number whose width differs between kernels.
    AnyWidth(&'static Scalar),
    /// An array whose elements are neither numbers nor pointers; rejected when the table is checked.
    NestedArray,
}

/// A type that fits into one register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Element {
    Scalar(&'static Scalar),
    Pointer(&'static str),
}

/// A number type, with its names in C, Rust and LLVM.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Scalar {
    pub(crate) c: &'static str,
    pub(crate) rust: &'static str,
    pub(crate) bits: usize,
    pub(crate) encoding: &'static str,
}

const fn scalar(scalar: &'static Scalar) -> Type {
    Type(TypeKind::One(Element::Scalar(scalar)))
}

/// `bool`: `bool` in Rust.
pub const BOOL: Type = scalar(&Scalar { c: "_Bool", rust: "bool", bits: 8, encoding: "DW_ATE_boolean" });
/// `char`: `u8` in Rust.
pub const CHAR: Type = scalar(&Scalar { c: "char", rust: "u8", bits: 8, encoding: "DW_ATE_signed_char" });
/// `signed char`, `s8`: `i8` in Rust.
pub const I8: Type = scalar(&Scalar { c: "signed char", rust: "i8", bits: 8, encoding: "DW_ATE_signed_char" });
/// `short`, `s16`: `i16` in Rust.
pub const I16: Type = scalar(&Scalar { c: "short", rust: "i16", bits: 16, encoding: "DW_ATE_signed" });
/// `int`, `s32`: `i32` in Rust.
pub const I32: Type = scalar(&Scalar { c: "int", rust: "i32", bits: 32, encoding: "DW_ATE_signed" });
/// `long` (on 64-bit kernels), `long long`, `s64`: `i64` in Rust.
pub const I64: Type = scalar(&Scalar { c: "long", rust: "i64", bits: 64, encoding: "DW_ATE_signed" });
/// `unsigned char`, `u8`: `u8` in Rust.
pub const U8: Type = scalar(&Scalar { c: "unsigned char", rust: "u8", bits: 8, encoding: "DW_ATE_unsigned_char" });
/// `unsigned short`, `u16`: `u16` in Rust.
pub const U16: Type = scalar(&Scalar { c: "unsigned short", rust: "u16", bits: 16, encoding: "DW_ATE_unsigned" });
/// `unsigned int`, `u32`: `u32` in Rust.
pub const U32: Type = scalar(&Scalar { c: "unsigned int", rust: "u32", bits: 32, encoding: "DW_ATE_unsigned" });
/// `unsigned long` (on 64-bit kernels), `unsigned long long`, `u64`: `u64` in Rust.
pub const U64: Type = scalar(&Scalar { c: "unsigned long", rust: "u64", bits: 64, encoding: "DW_ATE_unsigned" });

/// `element name[len]`: `[element; len]` in Rust. The elements are numbers or pointers.
pub const fn array(element: Type, len: usize) -> Type {
    Type(match element.0 {
        TypeKind::One(element) => TypeKind::Array(element, len),
        TypeKind::Array(..) | TypeKind::Embedded(_) | TypeKind::AnyWidth(_) | TypeKind::NestedArray => {
            TypeKind::NestedArray
        }
    })
}

/// `struct structure *name`: `*const structure` in Rust. The structure must be in the table.
pub const fn pointer(structure: &'static str) -> Type {
    Type(TypeKind::One(Element::Pointer(structure)))
}

/// `struct structure name`: a structure within a structure. The structure must be in the table.
pub const fn embedded(structure: &'static str) -> Type {
    Type(TypeKind::Embedded(structure))
}

/// A number whose width differs between kernels, such as an `int` that became a `u8`: `u8` in Rust, for
/// its first byte. `FIELD_size()` returns the number of bytes.
///
/// The loaders cannot change the width of a load of a signed number, and reject programs that would need
/// it. So the offset of this field is not part of the load: an instruction of its own computes the
/// address, whatever is read there.
pub const fn any_width(number: Type) -> Type {
    Type(match number.0 {
        TypeKind::One(Element::Scalar(scalar)) => TypeKind::AnyWidth(scalar),
        _ => TypeKind::NestedArray,
    })
}

/// A row of the table.
#[derive(Clone, Debug)]
pub(crate) struct StructField {
    pub(crate) name: String,
    pub(crate) ty: Type,
}

impl StructField {
    /// The structure that the field is, or points to.
    pub(crate) fn structure(&self) -> Option<&'static str> {
        match self.ty.0 {
            TypeKind::One(Element::Pointer(name))
            | TypeKind::Array(Element::Pointer(name), _)
            | TypeKind::Embedded(name) => Some(name),
            TypeKind::One(Element::Scalar(_))
            | TypeKind::Array(Element::Scalar(_), _)
            | TypeKind::AnyWidth(_)
            | TypeKind::NestedArray => None,
        }
    }
}

/// The rows of one structure.
#[derive(Clone, Debug)]
pub(crate) struct Structure {
    pub(crate) name: String,
    pub(crate) fields: Vec<StructField>,
}
