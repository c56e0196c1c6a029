//! Names as numbers: each is in the page once.

use crate::hash::HashMap;

/// The names, each at the place that its number says.
#[derive(Debug, Default)]
pub struct NameTable {
    names: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl NameTable {
    /// The number of a name.
    pub fn number(&mut self, name: String) -> usize {
        if let Some(number) = self.numbers.get(&name) {
            return *number;
        }
        self.names.push(name.clone());
        self.numbers.insert(name, self.names.len() - 1);
        self.names.len() - 1
    }

    /// The names by number.
    pub fn into_names(self) -> Vec<String> {
        self.names
    }
}
