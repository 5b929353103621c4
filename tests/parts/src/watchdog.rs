//! Ends what a test has started when the test itself has ended, however it ended.
//!
//! Dropping a [`Process`](crate::Process) ends it; but a test that is killed drops nothing. So a shell reads from a pipe
//! that only the test holds open. What is started is announced there before it runs, and when the pipe closes the shell
//! ends what is left.

use std::fs::File;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use anyhow::Context;

/// One line for each thing to end: `+N` and `-N` for a process group that has begun or ended, `plane PROGRAM DIRECTORY` for
/// a control plane, whose components are in sessions of their own, `remove DIRECTORY`.
const SCRIPT: &str = r#"
groups= planes= directories=
tab=$(printf '\t') newline='
'
while IFS= read -r line; do
  case $line in
  +*) groups="$groups ${line#+} " ;;
  -*) groups=$(printf %s "$groups" | sed "s/ ${line#-} / /") ;;
  plane*) planes="$planes${line#plane$tab}$newline" ;;
  remove*) directories="$directories${line#remove$tab}$newline" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
printf %s "$planes" | while IFS=$tab read -r program directory; do
  for try in 1 2 3 4 5 6 7 8 9 10; do
    [ -d "$directory" ] || break
    "$program" down --dir "$directory" >/dev/null 2>&1 && break
    sleep 1
  done
done
printf %s "$directories" | while IFS= read -r directory; do rm -rf "$directory"; done
"#;

/// Makes a shell announce itself, by its standard input, and become a program that does not hold the pipe open.
pub(crate) const ANNOUNCE: &str = r#"echo "+$$" >&0; exec "$@" </dev/null"#;

/// The shell. There is one for each test program; it outlives it by a moment.
#[derive(Debug)]
pub struct Watchdog {
    pipe: File,
    _shell: Child,
}

impl Watchdog {
    /// The one of this program, started when it is first needed.
    pub fn get() -> anyhow::Result<&'static Self> {
        static WATCHDOG: OnceLock<Watchdog> = OnceLock::new();
        if let Some(watchdog) = WATCHDOG.get() {
            return Ok(watchdog);
        }
        // If two threads come here at once one shell is dropped: its pipe closes, and it has nothing to end.
        let started = Self::start()?;
        Ok(WATCHDOG.get_or_init(|| started))
    }

    fn start() -> anyhow::Result<Self> {
        let mut shell = Command::new("sh")
            .args(["-c", SCRIPT])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Ctrl-C in a terminal is for the test.
            .process_group(0)
            .spawn()
            .context("sh")?;
        let pipe = shell.stdin.take().context("a pipe to the watchdog")?;
        Ok(Watchdog { pipe: File::from(std::os::fd::OwnedFd::from(pipe)), _shell: shell })
    }

    /// A control plane that is about to be started in this directory.
    pub fn plane(&self, program: &Path, directory: &Path) -> anyhow::Result<()> {
        self.tell(&format!("plane\t{}\t{}\n", program.display(), directory.display()))
    }

    /// A directory that goes with the test.
    pub fn remove(&self, directory: &Path) -> anyhow::Result<()> {
        self.tell(&format!("remove\t{}\n", directory.display()))
    }

    /// A process group that has ended: its number may be somebody else's from now on.
    pub(crate) fn ended(&self, group: u32) -> anyhow::Result<()> {
        self.tell(&format!("-{group}\n"))
    }

    /// The standard input of a process that announces itself.
    pub(crate) fn stdin(&self) -> anyhow::Result<Stdio> {
        Ok(Stdio::from(self.pipe.try_clone()?))
    }

    /// One short line is one write, and no two get mixed up.
    fn tell(&self, line: &str) -> anyhow::Result<()> {
        (&self.pipe).write_all(line.as_bytes()).context("the watchdog")
    }
}
