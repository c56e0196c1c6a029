//! Checks a table, so that mistakes are reported as such and not as errors of LLVM or rustc.

use std::{collections::HashSet, fmt};

use crate::{
    rust::rust_name,
    types::{Structure, TypeKind},
};

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// A name that is not a C identifier.
    Identifier {
        /// The name.
        name: String,
    },
    /// A structure that is in the table twice.
    DuplicateStructure {
        /// The structure's name.
        structure: String,
    },
    /// A field that is in its structure twice, or whose accessors have the same names as those of
    /// another field.
    DuplicateAccessor {
        /// The structure's name.
        structure: String,
        /// The name of the function that would be defined twice.
        accessor: String,
    },
    /// A field whose type is, or points to, a structure that is not in the table.
    UnknownStructure {
        /// The structure's name.
        structure: String,
        /// The field's name.
        field: String,
        /// The name of the structure that the field refers to.
        unknown: String,
    },
    /// An array whose elements are neither numbers nor pointers.
    ArrayElement {
        /// The structure's name.
        structure: String,
        /// The field's name.
        field: String,
    },
    /// A structure that contains itself.
    Recursive {
        /// The structure's name.
        structure: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Identifier { name } => {
                write!(f, "`{name}` is not a C identifier; use letters, digits and `_`, no digit first")
            }
            Self::DuplicateStructure { structure } => {
                write!(
                    f,
                    "`{structure}` is in the table twice; merge them or give one a flavour, such as `{structure}___old`"
                )
            }
            Self::DuplicateAccessor { structure, accessor } => {
                write!(
                    f,
                    "`{structure}::{accessor}` would be defined twice; remove a row, or move it to a flavour of its own, such as `{structure}___other`"
                )
            }
            Self::UnknownStructure { structure, field, unknown } => {
                write!(
                    f,
                    "`{structure}.{field}` refers to the unknown structure `{unknown}`; add `.structure(\"{unknown}\", [])`"
                )
            }
            Self::ArrayElement { structure, field } => {
                write!(
                    f,
                    "`{structure}.{field}` is an array of arrays or structures; expected one of numbers or pointers"
                )
            }
            Self::Recursive { structure } => {
                write!(f, "`{structure}` contains itself; use `pointer` if the field is one")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Returns the first mistake as an error.
pub(crate) fn check(structures: &[Structure]) -> Result<(), Error> {
    let mut known = HashSet::new();
    for structure in structures {
        identifier(&structure.name)?;
        if !known.insert(rust_name(&structure.name)) {
            return Err(Error::DuplicateStructure { structure: structure.name.clone() });
        }
    }
    for structure in structures {
        fields(structure, &known)?;
    }
    structures.iter().try_for_each(|structure| recursion(structures, structure, &mut vec![]))
}

fn identifier(name: &str) -> Result<(), Error> {
    let well_formed = !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    // In Rust, `_` on its own has a special meaning.
    if well_formed && name != "_" { Ok(()) } else { Err(Error::Identifier { name: name.to_owned() }) }
}

fn fields(structure: &Structure, known: &HashSet<String>) -> Result<(), Error> {
    let mut accessors = HashSet::new();
    for field in &structure.fields {
        identifier(&field.name)?;
        let (structure, name) = (structure.name.clone(), field.name.clone());
        for accessor in [rust_name(&name), format!("{name}_exists")] {
            if !accessors.insert(accessor.clone()) {
                return Err(Error::DuplicateAccessor { structure, accessor });
            }
        }
        if field.ty.0 == TypeKind::NestedArray {
            return Err(Error::ArrayElement { structure, field: name });
        }
        if let Some(unknown) = field.structure().filter(|name| !known.contains(&rust_name(name))) {
            return Err(Error::UnknownStructure { structure, field: name, unknown: unknown.to_owned() });
        }
    }
    Ok(())
}

/// Descends into embedded structures; `path` holds the structures above `at`.
fn recursion<'a>(structures: &'a [Structure], at: &'a Structure, path: &mut Vec<&'a str>) -> Result<(), Error> {
    if path.contains(&at.name.as_str()) {
        return Err(Error::Recursive { structure: at.name.clone() });
    }
    path.push(&at.name);
    for field in &at.fields {
        if let TypeKind::Embedded(name) = field.ty.0 {
            let inner = structures.iter().find(|structure| structure.name == name);
            inner.map_or(Ok(()), |inner| recursion(structures, inner, path))?;
        }
    }
    path.pop();
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{AccessorTable, CHAR, I32, Type, array, embedded, pointer};

    /// The error message for a structure `a` with these fields, next to a valid `b`.
    fn message<const N: usize>(fields: [(&'static str, Type); N]) -> String {
        let kernel = AccessorTable::new().structure("a", fields).structure("b", [("field", I32)]);
        kernel.accessors().unwrap_err().to_string()
    }

    #[test]
    fn a_name_that_is_no_identifier_is_refused() {
        for name in ["", "_", "1st", "a-b", "a.b", "a b", "größe"] {
            let expected = format!("`{name}` is not a C identifier; use letters, digits and `_`, no digit first");
            assert_eq!(message([(name, I32)]), expected);
            assert_eq!(AccessorTable::new().structure(name, []).accessors().unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn a_structure_is_in_the_table_once() {
        let kernel = AccessorTable::new().structure("a", [("x", I32)]).structure("a", [("y", I32)]);
        assert_eq!(
            kernel.accessors().unwrap_err().to_string(),
            "`a` is in the table twice; merge them or give one a flavour, such as `a___old`"
        );
        AccessorTable::new().structure("a", [("x", I32)]).structure("a___old", [("x", I32)]).accessors().unwrap();
    }

    #[test]
    fn a_field_is_in_its_structure_once() {
        assert_eq!(
            message([("x", I32), ("y", I32), ("x", CHAR)]),
            "`a::x` would be defined twice; remove a row, or move it to a flavour of its own, such as `a___other`"
        );
    }

    #[test]
    fn accessors_of_two_fields_have_different_names() {
        assert!(message([("x", I32), ("x_exists", I32)]).starts_with("`a::x_exists` would be defined twice"));
        assert!(message([("self", I32), ("self_", I32)]).starts_with("`a::self_` would be defined twice"));
    }

    #[test]
    fn a_structure_referred_to_is_in_the_table() {
        for ty in [pointer("c"), embedded("c"), array(pointer("c"), 2)] {
            assert_eq!(message([("x", ty)]), "`a.x` refers to the unknown structure `c`; add `.structure(\"c\", [])`");
        }
    }

    #[test]
    fn an_array_holds_numbers_or_pointers() {
        for element in [array(I32, 2), embedded("b")] {
            assert_eq!(
                message([("x", array(element, 2))]),
                "`a.x` is an array of arrays or structures; expected one of numbers or pointers"
            );
        }
    }

    #[test]
    fn a_structure_does_not_contain_itself() {
        let expected = "`a` contains itself; use `pointer` if the field is one";
        assert_eq!(message([("x", embedded("a"))]), expected);
        let around = AccessorTable::new().structure("a", [("x", embedded("b"))]).structure("b", [("y", embedded("a"))]);
        assert_eq!(around.accessors().unwrap_err().to_string(), expected);
        let twice = [("x", embedded("b")), ("y", embedded("b")), ("z", pointer("a"))];
        AccessorTable::new().structure("a", twice).structure("b", []).accessors().unwrap();
    }
}
