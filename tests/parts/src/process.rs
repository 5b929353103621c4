//! A program that runs beside a test, in a process group of its own.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::watchdog::{ANNOUNCE, Watchdog};

/// How much of a log is shown where something has gone wrong.
const LAST_LINES: usize = 25;

/// A running program. It ends, with whatever it has started itself, when this is dropped, and when the test is killed.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command. What it prints goes to a file. The command's own streams are not looked at, and its environment
    /// is added to this one's, less what it removes.
    pub fn start(name: &str, command: &Command, log: &Path) -> anyhow::Result<Self> {
        let said = File::options().create(true).append(true).open(log).with_context(|| log.display().to_string())?;
        let mut shell = Command::new("sh");
        shell.args(["-c", ANNOUNCE, name]).arg(command.get_program()).args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => shell.env(key, value),
                None => shell.env_remove(key),
            };
        }
        if let Some(directory) = command.get_current_dir() {
            shell.current_dir(directory);
        }
        let child = shell
            .stdin(Watchdog::get()?.stdin()?)
            .stdout(said.try_clone()?)
            .stderr(said)
            .process_group(0)
            .spawn()
            .with_context(|| name.to_owned())?;
        Ok(Process { name: name.to_owned(), child, log: log.to_owned() })
    }

    /// Waits until the program is ready, as the caller sees it; an error if it ends before, or takes longer than this.
    pub fn wait<T>(&mut self, patience: Duration, ready: impl Fn() -> Option<T>) -> anyhow::Result<T> {
        let end = Instant::now() + patience;
        loop {
            if let Some(found) = ready() {
                return Ok(found);
            }
            self.check()?;
            if Instant::now() > end {
                bail!("{} is not ready after {patience:?}:\n{}", self.name, self.last_words());
            }
            sleep(Duration::from_millis(50));
        }
    }

    /// Waits until it has done what it was started for; an error, with its last words, if it could not.
    pub fn finish(mut self) -> anyhow::Result<()> {
        match self.child.wait()? {
            status if status.success() => Ok(()),
            status => bail!("{} failed ({status}):\n{}", self.name, self.last_words()),
        }
    }

    /// An error, with its last words, if it has ended by itself.
    pub fn check(&mut self) -> anyhow::Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} has ended ({status}):\n{}", self.name, self.last_words()),
        }
    }

    /// What it has printed so far.
    #[must_use]
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    fn last_words(&self) -> String {
        let said = self.said();
        let lines: Vec<&str> = said.lines().collect();
        lines.iter().skip(lines.len().saturating_sub(LAST_LINES)).map(|line| format!("  {line}\n")).collect()
    }

    /// Its resident memory now and at most, in MiB; of the program alone, without what it has started.
    pub fn memory(&self) -> anyhow::Result<(u64, u64)> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let of = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kibibytes = line.and_then(|rest| rest.split_whitespace().next()).and_then(|number| number.parse().ok());
            kibibytes.map(|kibibytes: u64| kibibytes / 1024).with_context(|| format!("{key} of {}", self.name))
        };
        Ok((of("VmRSS:")?, of("VmHWM:")?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let group = self.child.id();
        // It fails where everything has ended already, which is all that is wanted.
        let _ = Command::new("sh")
            .args(["-c", "kill -s KILL -- \"-$1\"", "kill", &group.to_string()])
            .stderr(Stdio::null())
            .status();
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Ok(watchdog) = Watchdog::get() {
            let _ = watchdog.ended(group);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn runs(pid: &str) -> bool {
        // A process that has ended and was not reaped has no command line.
        fs::read(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| !line.is_empty())
    }

    fn eventually(what: &str, holds: impl Fn() -> bool) {
        let end = Instant::now() + Duration::from_mins(1);
        while !holds() {
            assert!(Instant::now() < end, "not after a minute: {what}");
            sleep(Duration::from_millis(20));
        }
    }

    /// A shell that starts another program, and writes down both process ids.
    fn family(directory: &Path) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 1000 & echo $$ > own; echo $! > other; mv other others; wait"]).current_dir(directory);
        shell
    }

    #[test]
    fn what_a_process_has_started_ends_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        let process = Process::start("family", &family(directory.path()), &directory.path().join("log")).unwrap();
        eventually("both have begun", || !read("others").is_empty());
        let (own, other) = (read("own"), read("others"));
        assert!(runs(&own) && runs(&other));
        drop(process);
        eventually("both have ended", || !runs(&own) && !runs(&other));
    }

    #[test]
    fn what_it_has_printed_is_told_when_it_ends_too_early() {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo why; exit 3"]);
        let mut process = Process::start("early", &command, &directory.path().join("log")).unwrap();
        let error = process.wait(Duration::from_mins(1), || None::<()>).unwrap_err().to_string();
        assert!(error.contains("early has ended") && error.contains("why"), "{error}");
    }

    /// Runs in a test program of its own, started by the next test, which kills it.
    #[test]
    #[ignore = "is killed by the next one"]
    fn to_be_killed() {
        let Some(directory) = std::env::var_os("TO_BE_KILLED_IN").map(PathBuf::from) else { return };
        let process = Process::start("family", &family(&directory), &directory.join("log")).unwrap();
        sleep(Duration::from_mins(10));
        drop(process);
    }

    #[test]
    fn nothing_stays_running_when_the_test_is_killed() {
        let directory = tempfile::tempdir().unwrap();
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        let mut test = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "process::tests::to_be_killed"])
            .env("TO_BE_KILLED_IN", directory.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        eventually("both have begun", || !read("others").is_empty());
        test.kill().unwrap();
        test.wait().unwrap();
        eventually("both have ended", || !runs(&read("own")) && !runs(&read("others")));
    }
}
