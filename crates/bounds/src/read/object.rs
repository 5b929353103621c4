//! Objects read from JSON as Go reads them: what is missing or `null` is empty, what is not known is skipped.
//!
//! serde's derive would do, but it also writes code for reading each struct from a list, for finding duplicate fields and
//! for each field's name as a type of its own: a third of the whole module. `object!` writes the one loop that is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::text::Text;

/// Something that is read from JSON; `null` reads as the empty value.
pub(crate) trait FromJson<'de>: Sized {
    /// Reads it.
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

/// A struct with named fields.
pub(crate) trait Fields<'de>: Default {
    /// The known fields, where unknown ones are an error.
    const STRICT: Option<&'static [&'static str]>;

    /// Reads the value of a field that is known; says whether it is.
    fn read_field<A: MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error>;
}

/// Declares a struct and how it is read: `field: Type = "key in JSON"`. With `strict;` in front, unknown keys are errors.
macro_rules! object {
    (strict; $($struct:tt)*) => {
        $crate::read::object::object! { @ true, $($struct)* }
    };
    (
        @ $strict:literal,
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? {
            $( $(#[$field_attribute:meta])* $field_vis:vis $field:ident: $type:ty = $key:literal, )*
        }
    ) => {
        $(#[$attribute])*
        $vis struct $name $(<$life>)? {
            $( $(#[$field_attribute])* $field_vis $field: $type, )*
        }

        impl<'de $(: $life, $life)?> $crate::read::object::Fields<'de> for $name $(<$life>)? {
            const STRICT: Option<&'static [&'static str]> = if $strict { Some(&[$($key),*]) } else { None };

            fn read_field<A: serde::de::MapAccess<'de>>(&mut self, key: &str, map: &mut A) -> Result<bool, A::Error> {
                match key {
                    $( $key => self.$field = map.next_value_seed($crate::read::object::Read::new())?, )*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        impl<'de $(: $life, $life)?> $crate::read::object::FromJson<'de> for $name $(<$life>)? {
            fn from_json<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read::object::read_object(deserializer)
            }
        }

        impl<'de $(: $life, $life)?> serde::Deserialize<'de> for $name $(<$life>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::read::object::read_object(deserializer)
            }
        }
    };
    ($($struct:tt)*) => {
        $crate::read::object::object! { @ false, $($struct)* }
    };
}
pub(crate) use object;

/// The seed that reads a `T`.
pub(crate) struct Read<T>(PhantomData<T>);

impl<T> Read<T> {
    pub(crate) fn new() -> Self {
        Read(PhantomData)
    }
}

impl<'de, T: FromJson<'de>> DeserializeSeed<'de> for Read<T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::from_json(deserializer)
    }
}

/// Reads a struct with named fields.
pub(crate) fn read_object<'de, T: Fields<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_option(ObjectVisitor(PhantomData))
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: Fields<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: de::Error>(self) -> Result<T, E> {
        Ok(T::default())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut object = T::default();
        read_fields(&mut map, T::STRICT, &mut |key, map| object.read_field(key, map))?;
        Ok(object)
    }
}

/// Hands the known fields to `read`. Through `dyn`, so that the loop is there once and not for each struct.
#[inline(never)]
fn read_fields<'de, A: MapAccess<'de>>(
    map: &mut A,
    strict: Option<&'static [&'static str]>,
    read: &mut dyn FnMut(&str, &mut A) -> Result<bool, A::Error>,
) -> Result<(), A::Error> {
    while let Some(key) = map.next_key::<Text<'de>>()? {
        if read(&key, map)? {
            continue;
        }
        match strict {
            Some(known) => return Err(de::Error::unknown_field(&key, known)),
            None => map.next_value::<IgnoredAny>()?,
        };
    }
    Ok(())
}

impl<'de, T: FromJson<'de>> FromJson<'de> for Vec<T> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_option(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: FromJson<'de>> Visitor<'de> for ListVisitor<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: de::Error>(self) -> Result<Vec<T>, E> {
        Ok(Vec::new())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = seq.next_element_seed(Read::new())? {
            list.push(item);
        }
        Ok(list)
    }
}

/// Reads with serde, `null` as the empty value.
macro_rules! from_json {
    ($($type:ty),*) => {
        $(impl<'de: 'a, 'a> FromJson<'de> for $type {
            fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Option::deserialize(deserializer)?.unwrap_or_default())
            }
        })*
    };
}
from_json!(Text<'a>, BTreeMap<Text<'a>, Text<'a>>);

impl<'de> FromJson<'de> for String {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Text::from_json(deserializer).map(|text| text.to_string())
    }
}

impl<'de> FromJson<'de> for Option<String> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<Text<'de>>::from_json(deserializer).map(|text| text.map(|text| text.to_string()))
    }
}

impl<'de> FromJson<'de> for bool {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or_default())
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Option<&'a RawValue> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer)
    }
}

impl<'de: 'a, 'a> FromJson<'de> for Option<Text<'a>> {
    fn from_json<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer)
    }
}
