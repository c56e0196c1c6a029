//! Layouts of trace records, from the `format` files of tracefs. Layouts differ between kernels and their
//! flavours (a real-time kernel has one more common field, a name becomes `__data_loc` in 6.16), so all of
//! them are parsed and none is assumed.

use std::fmt;

/// The layout of a tracepoint's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// The tracepoint's name.
    pub name: String,
    /// The tracepoint's ID, as in `perf_event_attr.config` and in the `common_type` of a record.
    pub id: u32,
    /// The fields by ascending offset: first the common fields of all records.
    pub fields: Vec<FormatField>,
    /// How the kernel prints a record.
    pub print: String,
}

/// A field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatField {
    /// The field's name.
    pub name: String,
    /// The C type, without `__data_loc` and without an array's length.
    pub kind: String,
    /// Whether the field is an array, and its length if the file gives it as a number.
    pub array: Option<Option<u32>>,
    /// The location of the value.
    pub location: FieldLocation,
    /// The field's offset in the record, in bytes.
    pub offset: u32,
    /// The field's size in bytes.
    pub size: u32,
    /// Whether the field is a signed number. Meaningless for a string, for which it depends on the
    /// architecture's `char`.
    pub signed: bool,
    /// Whether the field is common to all records.
    pub common: bool,
}

/// The location of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldLocation {
    /// In the field itself.
    Inline,
    /// `__data_loc`: the field is a u32 whose lower half is the value's offset from the record's beginning, and whose
    /// upper half is its length.
    DataLoc,
    /// `__rel_loc` (5.18): like [`Self::DataLoc`], but the offset is from the field's end.
    RelLoc,
}

/// Why a text is not a `format` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormatError {
    /// The faulty line, counted from 1; 0 if a line is missing.
    pub line: usize,
    /// What was expected.
    pub expected: &'static str,
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "the format has no {}", self.expected),
            line => write!(f, "line {line} of the format: expected {}", self.expected),
        }
    }
}

impl std::error::Error for FormatError {}

impl EventFormat {
    /// Parses a `format` file (`f_show`, kernel/trace/trace_events.c, 5.10 to 7.2).
    ///
    /// # Errors
    /// The first malformed line, or the missing line.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let (mut name, mut id, mut print) = (None, None, None::<String>);
        let mut fields = Vec::new();
        let mut common = true;
        for (index, line) in text.lines().enumerate() {
            let error = |expected| FormatError { line: index + 1, expected };
            if let Some(print) = &mut print {
                // The print format is the last part, and the kernel does not escape line breaks in it
                // (ext4_fc_stats has some).
                *print += "\n";
                *print += line;
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                fields.push(
                    field_of(field, common).ok_or_else(|| error("`field:TYPE NAME; offset:N; size:N; signed:N;`"))?,
                );
            } else if let Some(text) = line.strip_prefix("name: ") {
                name = Some(text.to_owned());
            } else if let Some(text) = line.strip_prefix("ID: ") {
                id = Some(text.trim().parse().map_err(|_| error("`ID:` and a number"))?);
            } else if let Some(text) = line.strip_prefix("print fmt: ") {
                print = Some(text.to_owned());
            } else if line.trim().is_empty() {
                // An empty line separates the common fields from those of this record.
                common &= fields.is_empty();
            } else if line != "format:" {
                return Err(error("`name:`, `ID:`, `format:`, `field:` or `print fmt:`"));
            }
        }
        let missing = |expected| FormatError { line: 0, expected };
        Ok(Self {
            name: name.ok_or(missing("`name:`"))?,
            id: id.ok_or(missing("`ID:`"))?,
            fields,
            print: print.unwrap_or_default(),
        })
    }

    /// The field with this name.
    pub fn field(&self, name: &str) -> Option<&FormatField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The fields of this record without the common ones.
    pub fn own_fields(&self) -> impl Iterator<Item = &FormatField> {
        self.fields.iter().filter(|field| !field.common)
    }
}

fn field_of(text: &str, common: bool) -> Option<FormatField> {
    let mut parts = text.split(';').map(str::trim);
    let declaration = parts.next()?;
    let mut number = |name: &str| parts.next()?.strip_prefix(name)?.parse::<u32>().ok();
    let (offset, size) = (number("offset:")?, number("size:")?);
    let signed = match number("signed:")? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let (location, declaration) = match declaration.split_once(' ') {
        Some(("__data_loc", rest)) => (FieldLocation::DataLoc, rest),
        Some(("__rel_loc", rest)) => (FieldLocation::RelLoc, rest),
        _ => (FieldLocation::Inline, declaration),
    };
    // `char comm[16]`, `__data_loc char[] comm`, `const char * name`, `unsigned long args[6]`.
    let (declaration, after_name) = bracket(declaration);
    let at = declaration.rfind([' ', '*'])?;
    let (kind, after_type) = bracket(declaration[..=at].trim_end());
    let name = declaration[at + 1..].to_owned();
    let array = after_name.or(after_type).map(|length| length.trim().parse().ok());
    (!name.is_empty() && !kind.is_empty()).then(|| FormatField {
        name,
        kind: kind.to_owned(),
        array,
        location,
        offset,
        size,
        signed,
        common,
    })
}

/// Splits `x[n]` into `x` and `n`.
fn bracket(text: &str) -> (&str, Option<&str>) {
    match text.strip_suffix(']').and_then(|text| text.rsplit_once('[')) {
        Some((text, length)) => (text.trim_end(), Some(length)),
        None => (text, None),
    }
}

impl fmt::Display for FormatField {
    /// Formats the field as a C declaration.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location = match self.location {
            FieldLocation::Inline => "",
            FieldLocation::DataLoc => "__data_loc ",
            FieldLocation::RelLoc => "__rel_loc ",
        };
        let space = if self.kind.ends_with('*') { "" } else { " " };
        write!(f, "{location}{}{space}{}", self.kind, self.name)?;
        match self.array {
            Some(Some(length)) => write!(f, "[{length}]"),
            Some(None) => f.write_str("[]"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(kernel: &str, event: &str) -> EventFormat {
        let path = format!("{}/tests/fixtures/formats/{kernel}/{event}.format", env!("CARGO_MANIFEST_DIR"));
        EventFormat::parse(&std::fs::read_to_string(&path).expect(&path)).expect(&path)
    }

    #[test]
    fn a_print_format_may_have_several_lines() {
        let text =
            "name: e\nID: 7\nformat:\n\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;\n\nprint fmt: \"a:\n%d\", REC->a\n";
        assert_eq!(EventFormat::parse(text).unwrap().print, "\"a:\n%d\", REC->a");
    }

    #[test]
    fn every_format_of_a_real_kernel_is_parsed_completely() {
        let mut read = 0;
        for kernel in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/formats")).unwrap() {
            for file in std::fs::read_dir(kernel.unwrap().path()).unwrap() {
                let path = file.unwrap().path();
                let text = std::fs::read_to_string(&path).unwrap();
                let format = EventFormat::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert_eq!(Some(format.name.as_str()), path.file_stem().unwrap().to_str());
                assert_eq!(format.fields.len(), text.matches("field:").count(), "{}", path.display());
                assert!(format.fields.iter().filter(|field| field.common).count() >= 4, "{}", path.display());
                assert!(format.own_fields().count() > 0 && !format.print.is_empty(), "{}", path.display());
                for pair in format.fields.windows(2) {
                    assert!(pair[0].offset + pair[0].size <= pair[1].offset, "{}", path.display());
                }
                read += 1;
            }
        }
        assert!(read >= 20, "{read}");
    }

    #[test]
    fn t24_a_real_time_kernel_has_other_field_offsets() {
        let offset = |kernel| fixture(kernel, "sched_switch").field("next_pid").map(|field| field.offset);
        assert_eq!((offset("6.1-cloud"), offset("6.1-rt")), (Some(56), Some(64)));
    }

    #[test]
    fn t24_a_name_may_move_out_of_the_record() {
        let comm = |kernel| fixture(kernel, "sched_migrate_task").field("comm").cloned().unwrap();
        let (old, new) = (comm("6.12-cloud"), comm("7.2-cloud"));
        assert_eq!((old.location, old.array, old.size), (FieldLocation::Inline, Some(Some(16)), 16));
        assert_eq!((new.location, new.array, new.size), (FieldLocation::DataLoc, Some(None), 4));
        assert_eq!((old.to_string().as_str(), new.to_string().as_str()), ("char comm[16]", "__data_loc char comm[]"));
    }

    #[test]
    fn the_error_for_a_malformed_format_has_its_line() {
        let line = |text: &str| EventFormat::parse(text).unwrap_err().line;
        assert_eq!(line(""), 0);
        assert_eq!(line("name: x\n"), 0);
        assert_eq!(line("name: x\nID: y\n"), 2);
        assert_eq!(line("name: x\nID: 1\nformat:\n\tfield:int a;\toffset:0;\n"), 4);
        assert_eq!(line("name: x\nID: 1\nrubbish\n"), 3);
    }
}
