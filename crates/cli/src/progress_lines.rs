//! How far a long work is, in lines: for output that goes to a file.

use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(30);

/// The lines of a training.
pub(crate) struct ProgressLines {
    episodes: u64,
    first: u64,
    began: Instant,
    last_line: Instant,
    at: u64,
}

impl ProgressLines {
    /// Of so many episodes, `done` of them before `now`.
    pub(crate) fn new(episodes: u64, done: u64, now: Instant) -> ProgressLines {
        ProgressLines { episodes, first: done, began: now, last_line: now, at: done }
    }

    /// The line that is due at `now`, if one is: how far, how fast since the beginning, how long it will take.
    pub(crate) fn due(&mut self, episode: u64, now: Instant) -> Option<String> {
        self.at = episode;
        if now.duration_since(self.last_line) < EVERY {
            return None;
        }
        self.last_line = now;
        let seconds = now.duration_since(self.began).as_secs_f64();
        let per_second = (episode - self.first) as f64 / seconds;
        let left = Duration::from_secs_f64((self.episodes.saturating_sub(episode)) as f64 / per_second);
        let percent = 100 * episode / self.episodes.max(1);
        Some(format!(
            "{episode}/{} episodes ({percent} %)  {}  {} left",
            self.episodes,
            rate(per_second),
            duration(left)
        ))
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
        let mut lines = ProgressLines::new(1000, 100, start);
        assert_eq!(lines.due(110, at(10)), None);
        assert_eq!(lines.due(160, at(30)).unwrap(), "160/1000 episodes (16 %)  2.0 per s  7 min left");
        assert_eq!(lines.due(200, at(59)), None);
        assert_eq!(lines.due(220, at(60)).unwrap(), "220/1000 episodes (22 %)  2.0 per s  7 min left");
        assert_eq!(lines.done(at(61)), Some((120, Duration::from_secs(61))));
        assert_eq!(ProgressLines::new(5, 5, start).done(at(1)), None);
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
