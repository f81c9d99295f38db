//! How far a long work is, in lines: for output that goes to a file.

use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(30);

/// The lines of some work.
pub(crate) struct ProgressLines {
    total: u64,
    /// What stands before and behind the numbers.
    words: [String; 2],
    first: u64,
    began: Instant,
    last_line: Instant,
    at: u64,
}

impl ProgressLines {
    /// Of so many episodes, `done` of them before `now`.
    pub(crate) fn new(episodes: u64, done: u64, now: Instant) -> ProgressLines {
        let words = [String::new(), " episodes".into()];
        ProgressLines { total: episodes, words, first: done, began: now, last_line: now, at: done }
    }

    /// Of so many steps of other work, e.g. "embedding".
    pub(crate) fn of(work: &str, total: u64, now: Instant) -> ProgressLines {
        ProgressLines { words: [format!("{work} "), String::new()], ..ProgressLines::new(total, 0, now) }
    }

    /// The line that is due at `now`, if one is: how far, how fast since the beginning, how long it will take.
    pub(crate) fn due(&mut self, at: u64, now: Instant) -> Option<String> {
        self.at = at;
        if now.duration_since(self.last_line) < EVERY {
            return None;
        }
        self.last_line = now;
        let seconds = now.duration_since(self.began).as_secs_f64();
        let per_second = (at - self.first) as f64 / seconds;
        let percent = 100 * at / self.total.max(1);
        let [before, behind] = &self.words;
        let far = format!("{before}{at}/{}{behind} ({percent} %)", self.total);
        if at == self.first {
            return Some(far);
        }
        let left = Duration::from_secs_f64((self.total.saturating_sub(at)) as f64 / per_second);
        Some(format!("{far}  {}  {} left", rate(per_second), duration(left)))
    }

    /// Episodes taken and their time, where there were any.
    pub(crate) fn done(&self, now: Instant) -> Option<(u64, Duration)> {
        (self.at > self.first).then(|| (self.at - self.first, now.duration_since(self.began)))
    }
}

/// A number of episodes per second, with as many digits as mean something.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        r if r >= 20.0 => format!("{r:.0} per s"),
        r if r >= 1.0 => format!("{r:.1} per s"),
        r if 60.0 * r >= 1.0 => format!("{:.1} per min", 60.0 * r),
        r => format!("{:.1} per h", 3600.0 * r),
    }
}

/// A time as a person says it: 40 s, 12 min, 3 h 20 min, 2 days 4 h.
pub(crate) fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let minutes = (seconds + 30) / 60;
    match (seconds, minutes) {
        (s, _) if s < 100 => format!("{s} s"),
        (_, m) if m < 100 => format!("{m} min"),
        (_, m) if m < 48 * 60 => format!("{} h {} min", m / 60, m % 60),
        (_, m) => format!("{} days {} h", m / 1440, m % 1440 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_every_half_minute_with_the_time_left() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        // Resumed at 100 of 1,000: the earlier episodes do not count for the rate.
        let mut pace = ProgressLines::new(1000, 100, start);
        assert_eq!(pace.due(110, at(10)), None);
        assert_eq!(pace.due(160, at(30)).unwrap(), "160/1000 episodes (16 %)  2.0 per s  7 min left");
        assert_eq!(pace.due(200, at(59)), None);
        assert_eq!(pace.due(220, at(60)).unwrap(), "220/1000 episodes (22 %)  2.0 per s  7 min left");
        assert_eq!(pace.done(at(61)), Some((120, Duration::from_secs(61))));
        assert_eq!(ProgressLines::new(5, 5, start).done(at(1)), None);
        let mut pace = ProgressLines::of("embedding", 640, start);
        assert_eq!(pace.due(0, at(31)).unwrap(), "embedding 0/640 (0 %)", "nothing is known of the rate");
        assert_eq!(pace.due(64, at(64)).unwrap(), "embedding 64/640 (10 %)  1.0 per s  10 min left");
    }

    #[test]
    fn rates_and_times_are_rounded() {
        assert_eq!(rate(123.456), "123 per s");
        assert_eq!(rate(3.1231), "3.1 per s");
        assert_eq!(rate(0.1), "6.0 per min");
        assert_eq!(rate(0.001), "3.6 per h");
        let text = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!(text(99), "99 s");
        assert_eq!(text(100), "2 min");
        assert_eq!(text(12_000), "3 h 20 min");
        assert_eq!(text(187_200), "2 days 4 h");
    }
}
