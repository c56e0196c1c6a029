//! A table of the configuration file of the service, and its errors in the words of the file.

use std::collections::BTreeMap;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub struct SettingKey {
    /// Its name.
    pub name: &'static str,
    /// A value that is accepted, as the file has it.
    pub example: &'static str,
}

/// A table whose keys are read one by one.
pub struct SettingsTable<'a> {
    /// The text of the file.
    text: &'a str,
    /// The name of the table; empty for the top level.
    name: &'static str,
    /// Where the name is in the text: bytes.
    at: usize,
    entries: &'a DeTable<'a>,
    /// The keys that have been read, present or not.
    known: Vec<&'static str>,
}

impl<'a> SettingsTable<'a> {
    /// The top level of a file with this text.
    pub fn of_file(text: &'a str, entries: &'a DeTable<'a>) -> Self {
        Self { text, name: "", at: 0, entries, known: Vec::new() }
    }

    /// Where the table begins, such as `line 3, column 2`.
    pub fn place(&self) -> String {
        place(self.text, self.at)
    }

    /// The value of a key, which is a string that `parse` accepts. `None` if the key is absent.
    ///
    /// # Errors
    /// What is wrong with the value, and where.
    pub fn string<T>(
        &mut self,
        key: SettingKey,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.value(key.name) else { return Ok(None) };
        self.parsed(key, "", value, &parse).map(Some)
    }

    /// The value of a key, which is an array of strings that `parse` accepts. `None` if the key is absent.
    ///
    /// # Errors
    /// What is wrong with the value, and where.
    pub fn strings<T>(
        &mut self,
        key: SettingKey,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<Vec<T>>, String> {
        let Some(value) = self.value(key.name) else { return Ok(None) };
        let DeValue::Array(values) = value.get_ref() else {
            return Err(self.wrong_type(key, "", value, "an array of strings"));
        };
        let parsed = values.iter().map(|value| self.parsed(key, "an element of ", value, &parse));
        parsed.collect::<Result<_, _>>().map(Some)
    }

    /// The value of a key, which is an integer whose decimal digits `parse` accepts. `None` if the key is absent.
    ///
    /// # Errors
    /// What is wrong with the value, and where.
    pub fn integer<T>(
        &mut self,
        key: SettingKey,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        let Some(value) = self.value(key.name) else { return Ok(None) };
        let DeValue::Integer(number) = value.get_ref() else {
            return Err(self.wrong_type(key, "", value, "an integer"));
        };
        let decimal = i128::from_str_radix(number.as_str(), number.radix());
        let decimal = decimal.map_or_else(|_| number.to_string(), |number| number.to_string());
        parse(&decimal).map(Some).map_err(|why| self.wrong_value(key, value, &why))
    }

    /// The value of a key, which is `true` or `false`. `None` if the key is absent.
    ///
    /// # Errors
    /// What is wrong with the value, and where.
    pub fn boolean(&mut self, key: SettingKey) -> Result<Option<bool>, String> {
        let Some(value) = self.value(key.name) else { return Ok(None) };
        let found = value.get_ref().as_bool();
        found.map(Some).ok_or_else(|| self.wrong_type(key, "", value, "a boolean"))
    }

    /// The table of this name, if there is one.
    ///
    /// # Errors
    /// If the value is no table.
    pub fn table(&mut self, name: &'static str) -> Result<Option<Self>, String> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let key = self.entries.iter().map(|(key, _)| key).find(|key| &**key.get_ref() == name);
        let at = key.map_or(0, |key| key.span().start);
        match value.get_ref() {
            DeValue::Table(entries) => Ok(Some(Self { text: self.text, name, at, entries, known: Vec::new() })),
            other => {
                let why = format!("`{name}` is {}; expected a table, which begins with `[{name}]`", type_name(other));
                Err(self.error(at, &why))
            }
        }
    }

    /// All keys with their values, which are strings.
    ///
    /// # Errors
    /// If a value is no string.
    pub fn into_strings(self) -> Result<BTreeMap<String, String>, String> {
        let mut strings = BTreeMap::new();
        for (key, value) in self.entries.iter() {
            let key: &str = key.get_ref();
            let Some(text) = value.get_ref().as_str() else {
                let (name, found) = (self.full(key), type_name(value.get_ref()));
                let why = format!("`{name}` is {found}; expected a string, such as `{key} = \"production\"`");
                return Err(self.error(value.span().start, &why));
            };
            strings.insert(key.to_owned(), text.to_owned());
        }
        Ok(strings)
    }

    /// Checks that all keys of the table have been read.
    ///
    /// # Errors
    /// The first one that has not, and which keys the table may have.
    pub fn finish(self) -> Result<(), String> {
        let keys = self.entries.iter().map(|(key, _)| key);
        let unknown = keys.filter(|key| self.known.iter().all(|known| *known != &**key.get_ref()));
        let Some(key) = unknown.min_by_key(|key| key.span().start) else { return Ok(()) };
        let known: Vec<String> = self.known.iter().map(|name| format!("`{name}`")).collect();
        let why = format!("`{}` is not a setting; expected one of {}", self.full(key.get_ref()), known.join(", "));
        Err(self.error(key.span().start, &why))
    }

    fn value(&mut self, name: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        if !self.known.contains(&name) {
            self.known.push(name);
        }
        self.entries.iter().find(|(key, _)| &**key.get_ref() == name).map(|(_, value)| value)
    }

    /// The value as a string that `parse` accepts. `part` is how an error begins, if the value is a part of the key's.
    fn parsed<T>(
        &self,
        key: SettingKey,
        part: &str,
        value: &Spanned<DeValue<'_>>,
        parse: &impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, String> {
        match value.get_ref().as_str() {
            Some(text) => parse(text).map_err(|why| self.wrong_value(key, value, &why)),
            None => Err(self.wrong_type(key, part, value, "a string")),
        }
    }

    fn wrong_value(&self, key: SettingKey, value: &Spanned<DeValue<'_>>, why: &str) -> String {
        self.error(value.span().start, &format!("`{}`: {why}", self.full(key.name)))
    }

    fn wrong_type(&self, key: SettingKey, part: &str, value: &Spanned<DeValue<'_>>, expected: &str) -> String {
        let (SettingKey { name, example }, found) = (key, type_name(value.get_ref()));
        let why = format!("{part}`{}` is {found}; expected {expected}, such as `{name} = {example}`", self.full(name));
        self.error(value.span().start, &why)
    }

    /// The name of a key with that of its table.
    fn full(&self, key: &str) -> String {
        if self.name.is_empty() { key.to_owned() } else { format!("{}.{key}", self.name) }
    }

    fn error(&self, at: usize, why: &str) -> String {
        format!("{}: {why}", place(self.text, at))
    }
}

/// The line and the column of a byte of the text, both from 1.
pub fn place(text: &str, at: usize) -> String {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
    format!("line {line}, column {column}")
}

/// The type of a value, in the words of TOML.
fn type_name(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date-time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}
