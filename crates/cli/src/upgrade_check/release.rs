//! The releases of OLM v1 and what each makes of `spec.serviceAccount`.

use std::fmt;
use std::str::FromStr;

use bounds::settings::Phase;

/// A release, or Tech Preview, where synthetic users exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    name: &'static str,
    /// What it makes of the field.
    pub phase: Phase,
}

/// In the order in which they came; Tech Preview is a way to run 4.20.
const RELEASES: [Release; 5] = [
    Release { name: "4.20", phase: Phase::Required },
    Release { name: "tech-preview", phase: Phase::Optional },
    Release { name: "4.21", phase: Phase::Deprecated },
    Release { name: "4.22", phase: Phase::Deprecated },
    Release { name: "4.23", phase: Phase::Removed },
];

impl FromStr for Release {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = RELEASES.iter().find(|release| release.name == text).copied();
        found.ok_or_else(|| {
            let names: Vec<&str> = RELEASES.iter().map(|release| release.name).collect();
            format!("unknown release; known are {}", names.join(", "))
        })
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
