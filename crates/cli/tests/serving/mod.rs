pub(crate) mod answers;
pub(crate) mod client;
pub(crate) mod commands;
pub(crate) mod lookups;
pub(crate) mod proxy;
pub(crate) mod refusals;
pub(crate) mod stage;
pub(crate) mod webhook;
