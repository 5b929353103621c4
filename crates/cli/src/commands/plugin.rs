//! The names of this program: its own, and those by which kubectl finds it as a plugin. `kubectl operator-bounds` runs
//! `kubectl-operator_bounds`, and asks `kubectl_complete-operator_bounds` how to complete.

use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, Command};

use super::print;

const ITSELF: &str = "operator-bounds";
const FILE: &str = "kubectl-operator_bounds";
const COMPLETER: &str = "kubectl_complete-operator_bounds";
/// What kubectl is told after the last candidate: there are no others, or files will do.
const NO_FILES: &str = ":4";
const FILES: &str = ":0";

/// What this program was called as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called {
    /// Itself.
    Itself,
    /// A plugin of kubectl.
    Plugin,
    /// What completes the plugin.
    Completer,
}

impl Called {
    /// By the name of the file that was run.
    pub(crate) fn now() -> Self {
        Self::by(Path::new(&std::env::args_os().next().unwrap_or_default()))
    }

    fn by(path: &Path) -> Self {
        match path.file_stem().and_then(|name| name.to_str()) {
            Some(FILE) => Called::Plugin,
            Some(COMPLETER) => Called::Completer,
            _ => Called::Itself,
        }
    }

    /// What people type.
    pub(crate) fn typed(self) -> &'static str {
        match self {
            Called::Itself => ITSELF,
            Called::Plugin | Called::Completer => "kubectl operator-bounds",
        }
    }

    /// The file that a shell completes.
    pub(crate) fn completed(self) -> &'static str {
        match self {
            Called::Itself => ITSELF,
            Called::Plugin | Called::Completer => FILE,
        }
    }

    /// The command with the name that people type, in its examples too.
    pub(crate) fn name(self, command: Command) -> Command {
        if self == Called::Itself {
            return command;
        }
        let examples = |command: Command| match command.get_after_long_help().map(ToString::to_string) {
            Some(help) => {
                command.after_long_help(help.replace(&format!("  {ITSELF} "), &format!("  {} ", self.typed())))
            }
            None => command,
        };
        command.bin_name(self.typed()).mut_subcommands(examples)
    }
}

/// Answers kubectl: a candidate on each line, and at the end whether files will do.
pub(crate) fn complete(command: &Command) -> anyhow::Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    print(&candidates(command, &words).join("\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn candidates(command: &Command, words: &[String]) -> Vec<String> {
    let (last, before) = words.split_last().map_or(("", &[][..]), |(last, before)| (last.as_str(), before));
    let chosen = before.iter().find_map(|word| command.find_subcommand(word));
    let options = || {
        let of = chosen.unwrap_or(command).get_arguments().filter(|option| !option.is_hide_set());
        of.filter_map(Arg::get_long).map(|long| format!("--{long}")).collect::<Vec<_>>()
    };
    let (found, end) = match (chosen, before.last().and_then(|option| values(chosen?, option))) {
        (_, Some(values)) if values.is_empty() => (values, FILES),
        (_, Some(values)) => (values, NO_FILES),
        (_, None) if last.starts_with('-') => (options(), NO_FILES),
        (None, None) => {
            let commands = command.get_subcommands().filter(|command| !command.is_hide_set());
            (commands.map(|command| command.get_name().to_owned()).collect(), NO_FILES)
        }
        (Some(_), None) => (Vec::new(), FILES),
    };
    found.into_iter().filter(|candidate| candidate.starts_with(last)).chain([end.to_owned()]).collect()
}

/// The values that an option takes; none if it takes none, and an empty list if it takes any.
fn values(command: &Command, word: &str) -> Option<Vec<String>> {
    let is_it = |option: &&Arg| {
        word.strip_prefix("--").is_some_and(|long| option.get_long() == Some(long))
            || word.strip_prefix('-').is_some_and(|short| short.chars().eq(option.get_short()))
    };
    let option = command.get_arguments().find(is_it).filter(|option| option.get_action().takes_values())?;
    Some(option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    fn completed(words: &[&str]) -> Vec<String> {
        candidates(&Cli::command(), &words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn kubectls_plugin_is_known_by_its_file() {
        assert_eq!(Called::by(Path::new("/home/jane/.krew/bin/kubectl-operator_bounds")), Called::Plugin);
        assert_eq!(Called::by(Path::new("kubectl-operator_bounds.exe")), Called::Plugin);
        assert_eq!(Called::by(Path::new("kubectl_complete-operator_bounds")), Called::Completer);
        assert_eq!(Called::by(Path::new("target/debug/operator-bounds")), Called::Itself);
    }

    #[test]
    fn commands_options_and_values_are_completed() {
        assert_eq!(completed(&["au"]), ["audit", ":4"]);
        assert!(completed(&["audit", "--"]).contains(&"--namespace".to_owned()));
        assert_eq!(completed(&["audit", "--output", ""]), ["table", "json", "html", ":4"]);
        assert_eq!(completed(&["audit", "-o", "h"]), ["html", ":4"]);
        assert_eq!(completed(&["audit", "--write", ""]), [":0"]);
        assert_eq!(completed(&["check", ""]), [":0"]);
        assert!(completed(&[""]).contains(&"derive".to_owned()));
    }

    #[test]
    fn as_a_plugin_every_example_is_kubectls() {
        let command = Called::Plugin.name(Cli::command());
        let audit = command.find_subcommand("audit").unwrap().get_after_long_help().unwrap().to_string();
        assert!(
            audit.contains("  kubectl operator-bounds audit\n") && !audit.contains("\n  operator-bounds"),
            "{audit}"
        );
    }
}
