//! The three pairs of training and test data of the paper.

/// Training and test data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    /// Trained and tested on CUB.
    Cub,
    /// Trained and tested on mini-ImageNet.
    Mini,
    /// Trained on mini-ImageNet, validated and tested on CUB.
    Cross,
}

impl Scenario {
    /// By the first part of a cell's name.
    pub(super) fn named(key: &str) -> Option<Scenario> {
        [Scenario::Cub, Scenario::Mini, Scenario::Cross].into_iter().find(|scenario| scenario.key() == key)
    }

    fn key(self) -> &'static str {
        match self {
            Scenario::Cub => "cub",
            Scenario::Mini => "mini",
            Scenario::Cross => "cross",
        }
    }

    /// For people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Scenario::Cub => "CUB",
            Scenario::Mini => "mini-ImageNet",
            Scenario::Cross => "mini-ImageNet -> CUB",
        }
    }

    /// The names of the data in `[data]`.
    pub(super) fn data(self) -> &'static str {
        match self {
            Scenario::Cub => "train = \"cub\"\n",
            Scenario::Mini => "train = \"mini-imagenet\"\n",
            Scenario::Cross => "train = \"mini-imagenet\"\ntransfer = \"cub\"\n",
        }
    }

    /// Where the paper's text and the released code differ.
    pub(super) fn notes(self) -> impl Iterator<Item = &'static str> {
        let all_classes = [
            "All 100 classes of mini-ImageNet train, as in the released code; the paper's text has its training split of 64:",
            "--set data.split=default",
        ];
        all_classes.into_iter().filter(move |_| self == Scenario::Cross)
    }

    /// Methods that train on batches of 16 images: passes over the base classes, and batches of one pass as the released code
    /// counts them. Its domain transfer trains on all 100 classes of mini-ImageNet.
    pub(super) fn passes(self) -> (u64, u64) {
        match self {
            Scenario::Cub => (200, 367),
            Scenario::Mini => (400, 2400),
            Scenario::Cross => (400, 3750),
        }
    }
}

/// About how many images the validation and the test classes of a known data set have: no more than these are embedded in
/// one test, however many episodes it has.
pub(super) fn images(data: &str) -> Option<(u64, u64)> {
    match data {
        "cub" => Some((3_000, 3_000)),
        "mini-imagenet" => Some((9_600, 12_000)),
        _ => None,
    }
}
