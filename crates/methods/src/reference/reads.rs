//! Which fields of a case its check has looked at. A field that nothing looks at may hold anything: it must not pass unseen.

use serde_json::Value;
use std::cell::RefCell;
use std::collections::HashSet;

/// The places in memory of the values that were looked at.
#[derive(Debug, Default)]
pub struct Reads(RefCell<HashSet<usize>>);

impl Reads {
    /// Remembers a value.
    pub(super) fn add(&self, value: &Value) {
        self.0.borrow_mut().insert(std::ptr::from_ref(value) as usize);
    }

    /// The first field of `json`, or of an object inside it, that was not looked at, by its path.
    pub(super) fn first_unread(&self, json: &Value) -> Option<String> {
        match json {
            Value::Object(fields) => fields.iter().find_map(|(name, value)| {
                let seen = self.0.borrow().contains(&(std::ptr::from_ref(value) as usize));
                match seen {
                    false => Some(name.clone()),
                    true => self.first_unread(value).map(|inner| format!("{name}.{inner}")),
                }
            }),
            Value::Array(list) => list.iter().find_map(|value| self.first_unread(value)),
            _ => None,
        }
    }
}
