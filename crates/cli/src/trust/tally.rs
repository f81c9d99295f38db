//! What is counted over tasks.

use siskin_adapt::{Answer, TaskCalibration};

/// Sums over queries and tasks.
#[derive(Default, Clone)]
pub(super) struct Tally {
    queries: f64,
    right: f64,
    /// Sum of the largest probabilities.
    sure: f64,
    covered: f64,
    size: f64,
    members_turned_away: f64,
    strangers: f64,
    strangers_found: f64,
    left_out: f64,
    left_out_right: f64,
    tasks: f64,
    contradicted: f64,
    other_kind: f64,
    unlike: f64,
}

impl Tally {
    pub(super) const HEADER: &str =
        "accuracy  sure  left out  covered  size  strangers  members  contradicted  other kind  unlike";

    /// Of answers that never are none of these.
    pub(super) fn of(answers: &[Answer], truth: &[usize]) -> Tally {
        let mut tally = Tally { queries: truth.len() as f64, ..Tally::default() };
        for (answer, &truth) in answers.iter().zip(truth) {
            tally.right += f64::from(answer.label == truth);
            tally.sure += answer.probability();
            tally.covered += f64::from(answer.set.contains(&truth));
            tally.size += answer.set.len() as f64;
        }
        tally
    }

    /// Adds the answers to members and to strangers.
    pub(super) fn none_of_these(&mut self, members: &[Answer], strangers: &[Answer]) {
        let none = |answers: &[Answer]| answers.iter().filter(|answer| answer.none_of_these).count() as f64;
        self.members_turned_away += none(members);
        self.strangers += strangers.len() as f64;
        self.strangers_found += none(strangers);
    }

    /// Adds a task.
    pub(super) fn task(&mut self, known: &TaskCalibration) {
        self.tasks += 1.0;
        self.contradicted += f64::from(known.contradicted());
        self.other_kind += f64::from(known.other_kind);
        self.unlike += f64::from(known.unlike);
        if let Some(left_out) = &known.left_out {
            self.left_out += left_out.of as f64;
            self.left_out_right += left_out.right as f64;
        }
    }

    /// All of them.
    pub(super) fn sum(all: &[Tally]) -> Tally {
        let of = |f: fn(&Tally) -> f64| all.iter().map(f).sum::<f64>();
        Tally {
            queries: of(|t| t.queries),
            right: of(|t| t.right),
            sure: of(|t| t.sure),
            covered: of(|t| t.covered),
            size: of(|t| t.size),
            members_turned_away: of(|t| t.members_turned_away),
            strangers: of(|t| t.strangers),
            strangers_found: of(|t| t.strangers_found),
            left_out: of(|t| t.left_out),
            left_out_right: of(|t| t.left_out_right),
            tasks: of(|t| t.tasks),
            contradicted: of(|t| t.contradicted),
            other_kind: of(|t| t.other_kind),
            unlike: of(|t| t.unlike),
        }
    }

    /// A row under [`Tally::HEADER`].
    pub(super) fn row(&self) -> String {
        let share =
            |part: f64, of: f64| if of > 0.0 { format!("{:.1} %", 100.0 * part / of) } else { "-".into() };
        format!(
            "{:>8} {:>6} {:>8} {:>8} {:>5.2} {:>9} {:>8} {:>12} {:>10} {:>8}",
            share(self.right, self.queries),
            share(self.sure, self.queries),
            share(self.left_out_right, self.left_out),
            share(self.covered, self.queries),
            self.size / self.queries,
            share(self.strangers_found, self.strangers),
            share(self.members_turned_away, self.queries),
            share(self.contradicted, self.tasks),
            share(self.other_kind, self.tasks),
            share(self.unlike, self.tasks),
        )
    }
}
