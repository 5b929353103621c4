//! A bar for who waits: on standard error, after a second, and only on a terminal.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Runs shorter than this get no progress bar.
const PATIENCE: Duration = Duration::from_secs(1);
/// How often it moves.
const STEP: Duration = Duration::from_millis(100);
const WIDTH: usize = 30;

/// How far it is.
#[derive(Debug)]
pub(super) struct Progress {
    visible: bool,
    total: usize,
    done: usize,
    /// When the bar is drawn next.
    next: Instant,
    drawn: bool,
}

impl Progress {
    /// A bar for this many steps.
    #[must_use]
    pub(super) fn new(total: usize) -> Self {
        Progress { visible: io::stderr().is_terminal(), total, done: 0, next: Instant::now() + PATIENCE, drawn: false }
    }

    /// One more is done. Failing to draw the bar is not an error.
    pub(super) fn step(&mut self) {
        self.done += 1;
        if self.visible && Instant::now() >= self.next {
            self.next = Instant::now() + STEP;
            self.drawn = true;
            _ = write!(io::stderr(), "\r{}", bar(self.done, self.total));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.drawn {
            _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(done: usize, total: usize) -> String {
    let full = (done * WIDTH / total.max(1)).min(WIDTH);
    format!("[{}{}] {done}/{total}", "#".repeat(full), " ".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::bar;

    #[test]
    fn the_bar_grows_and_never_overflows() {
        assert_eq!(bar(5, 10), format!("[{}{}] 5/10", "#".repeat(15), " ".repeat(15)));
        assert!(bar(12, 10).contains(&"#".repeat(30)));
        assert!(bar(0, 0).ends_with("0/0"));
    }
}
