//! `bound: serviceAccount`: the account that an extension names bounds it again, though OLM ignores the field.

use futures::FutureExt;
use serde_json::json;
use test_olm::OlmV1;

use crate::report::{Case, Said};

use super::World;
use super::operators::ACCOUNTED;

pub(crate) const CASES: [Case<World>; 1] =
    [("the account that an extension names bounds it", |w| account_bounds(w).boxed_local())];

async fn account_bounds(world: &World) -> anyhow::Result<Said> {
    let mut extension = world.held_up(ACCOUNTED, ACCOUNTED, 0).await?;
    extension["spec"]["serviceAccount"] = json!({"name": "installer"});
    world.cluster.account(&format!("ns-{ACCOUNTED}"), "installer").await?;
    world.apply(&[extension]).await?;
    OlmV1::retries(&world.cluster, ACCOUNTED, &["denied the request", "ServiceAccount ns-accounted/installer"]).await?;
    world.nothing_is_written_for(ACCOUNTED)?;
    world.apply(&world.derived_for(ACCOUNTED, world.bundle(ACCOUNTED, 0)?, &[])?).await?;
    Ok(Some(format!("after the grant {:.1?}", OlmV1::installed(&world.cluster, ACCOUNTED, "1.0.0").await?)))
}
