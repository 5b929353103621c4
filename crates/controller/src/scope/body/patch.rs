//! JSON patches: a list of operations, each at a path.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::json::{Keys, parse, unfold};
use super::{BodyError, Change, HOOK, Said};
use crate::scope::owner::{OWNER_KIND, OWNER_NAME, quoted};

#[derive(Deserialize)]
struct Operation<'a> {
    op: String,
    path: String,
    #[serde(default)]
    from: String,
    #[serde(borrow, default)]
    value: Option<&'a RawValue>,
}

pub(super) fn read(body: &[u8]) -> Result<Said, BodyError> {
    let mut said = Said::default();
    for operation in parse::<Vec<Operation<'_>>>(body)? {
        operation.count(&mut said)?;
    }
    Ok(said)
}

/// The keys of a JSON pointer. A pointer that does not begin with a slash is interpreted differently by different
/// readers.
fn keys(pointer: &str) -> Option<Vec<String>> {
    let keys = pointer.strip_prefix('/')?.split('/');
    Some(keys.map(|key| key.replace("~1", "/").replace("~0", "~")).collect())
}

impl Operation<'_> {
    /// Records the effect of this operation.
    fn count(&self, said: &mut Said) -> Result<(), BodyError> {
        let unclear = || BodyError::Unclear(format!("it does {} at {}", quoted(&self.op), quoted(&self.path)));
        let place = keys(&self.path).ok_or_else(unclear)?;
        let place: Vec<&str> = place.iter().map(String::as_str).collect();
        let is_known = match &*self.op {
            "test" => return Ok(()),
            "add" | "replace" | "remove" => !matches!(place.as_slice(), ["metadata"]),
            // Moves and copies elsewhere are irrelevant; the effect of those from or to the metadata cannot be
            // determined.
            "move" | "copy" => place[0] != "metadata" && keys(&self.from).is_some_and(|from| from[0] != "metadata"),
            _ => false,
        };
        if !is_known {
            return Err(unclear());
        }
        let value = self.value.filter(|_| self.op != "remove");
        said.touches_spec |= !matches!(place[0], "metadata" | "status");
        match place.as_slice() {
            ["metadata", "labels"] => {
                let (kind, name) = change::<Keys<'_>>(value)?.owner()?;
                (said.owner_kind, said.owner_name) = (kind.in_whole(), name.in_whole());
            }
            ["metadata", "labels", key] if *key == OWNER_KIND => said.owner_kind = change(value)?,
            ["metadata", "labels", key] if *key == OWNER_NAME => said.owner_name = change(value)?,
            ["metadata", "annotations"] => said.is_hook |= change::<Keys<'_>>(value)?.has_hook()?,
            ["metadata", "annotations", key] if *key == HOOK => said.is_hook |= value.is_some(),
            _ => {}
        }
        Ok(())
    }
}

fn change<'a, T: Deserialize<'a>>(value: Option<&'a RawValue>) -> Result<Change<T>, BodyError> {
    value.map_or(Ok(Change::Removed), unfold)
}
