//! `[test]`: the test protocol.

use serde::{Deserialize, Serialize};

/// `[test]`: the paper's protocol is 5 groups of 600 episodes with 15 queries per class.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TestConfig {
    /// Groups of episodes; each has its own seed.
    pub groups: u64,
    /// Episodes in a group.
    pub episodes: u64,
    /// Query images of each class.
    pub query: usize,
    /// Classes in a test episode; unset means as trained.
    pub way: Option<usize>,
    /// Support images of each class; unset means as trained.
    pub shot: Option<usize>,
}

impl Default for TestConfig {
    fn default() -> Self {
        TestConfig { groups: 5, episodes: 600, query: 15, way: None, shot: None }
    }
}
