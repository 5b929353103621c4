//! Help, completion and manual pages: every command has them, with examples.

#![allow(clippy::unwrap_used, missing_docs)]

use std::process::Command;

use tempfile::TempDir;

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_operator-bounds")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The commands that the help lists, `help` itself aside.
fn commands() -> Vec<String> {
    let help = run(&["--help"]);
    let list = help.split("Commands:\n").nth(1).unwrap();
    let names = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    names.map(|line| line.split_whitespace().next().unwrap().to_owned()).filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_help_with_an_example_that_names_it() {
    let commands = commands();
    assert!(commands.len() >= 6, "{commands:?}");
    for command in commands {
        let help = run(&[&command, "--help"]);
        let examples = help.split("Example").nth(1).unwrap_or_else(|| panic!("{command} has no example"));
        assert!(examples.contains(&format!("operator-bounds {command}")), "{command}: {examples}");
    }
}

#[test]
fn every_shell_is_told_of_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completion", shell]);
        for command in commands() {
            assert!(script.contains(&command), "{shell}: {command}");
        }
    }
}

#[test]
fn the_script_for_bash_is_one() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("completion");
    std::fs::write(&file, run(&["completion", "bash"])).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&file).status();
    assert!(checked.is_ok_and(|status| status.success()));
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = TempDir::new().unwrap();
    run(&["man", directory.path().to_str().unwrap()]);
    for command in commands() {
        let page = std::fs::read_to_string(directory.path().join(format!("operator-bounds-{command}.1"))).unwrap();
        assert!(page.contains(".SH") && page.contains("Example"), "{command}");
    }
}
