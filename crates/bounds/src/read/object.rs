//! Objects read from JSON as Go reads them: what is missing or `null` is empty, unknown keys are skipped.
//!
//! serde's derive would work, but it generates a separate reader for each struct and for each place where it is read:
//! half of the whole module. `object!` only declares which field belongs to which key. A single reader serves all of
//! them; it sees structs as [`Fields`] and passes them the values of their keys as [`Value`].

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::read::text::Text;

/// A value could not be read. The reader has the reason.
#[derive(Debug)]
pub(crate) struct Failed;

/// A value that is about to be read. `null` reads as `None`; a value that is not read is skipped.
pub(crate) trait Value<'de> {
    /// A string.
    fn text(&mut self) -> Result<Option<Text<'de>>, Failed>;
    /// `true` or `false`.
    fn flag(&mut self) -> Result<Option<bool>, Failed>;
    /// Any value, unparsed.
    fn raw(&mut self) -> Result<Option<&'de RawValue>, Failed>;
    /// One of these words, returned as its index. `false` is read as `off`.
    fn choice(&mut self, known: &'static [&'static str]) -> Result<usize, Failed>;
    /// An object.
    fn object(&mut self, fields: &mut dyn Fields<'de>) -> Result<(), Failed>;
    /// A list, element by element.
    fn list(&mut self, element: &mut dyn ReadElement<'de>) -> Result<(), Failed>;
}

/// The callback for each element of a list.
pub(crate) trait ReadElement<'de>: FnMut(&mut dyn Value<'de>) -> Result<(), Failed> {}

impl<'de, F: FnMut(&mut dyn Value<'de>) -> Result<(), Failed>> ReadElement<'de> for F {}

/// Something with named fields.
pub(crate) trait Fields<'de> {
    /// The known fields, if unknown ones are an error.
    fn strict(&self) -> Option<&'static [&'static str]> {
        None
    }

    /// Reads the value of a known field, and leaves any other untouched.
    fn read_field(&mut self, key: &Text<'de>, value: &mut dyn Value<'de>) -> Result<(), Failed>;
}

/// A type that is read from JSON; `null` reads as the empty value.
pub(crate) trait FromJson<'de>: Sized {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed>;
}

/// Declares a struct and how it is read: `field: Type = "key in JSON"`. After `strict;`, unknown keys are errors.
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
            fn strict(&self) -> Option<&'static [&'static str]> {
                if $strict { Some(&[$($key),*]) } else { None }
            }

            fn read_field(
                &mut self,
                key: &$crate::read::text::Text<'de>,
                value: &mut dyn $crate::read::object::Value<'de>,
            ) -> Result<(), $crate::read::object::Failed> {
                match key.as_str() {
                    $( $key => self.$field = $crate::read::object::FromJson::from_json(value)?, )*
                    _ => {}
                }
                Ok(())
            }
        }

        impl<'de $(: $life, $life)?> $crate::read::object::FromJson<'de> for $name $(<$life>)? {
            fn from_json(
                value: &mut dyn $crate::read::object::Value<'de>,
            ) -> Result<Self, $crate::read::object::Failed> {
                let mut object = Self::default();
                value.object(&mut object)?;
                Ok(object)
            }
        }

        impl<'de $(: $life, $life)?> serde::Deserialize<'de> for $name $(<$life>)? {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let mut object = Self::default();
                $crate::read::object::read_object(deserializer, &mut object)?;
                Ok(object)
            }
        }
    };
    ($($struct:tt)*) => {
        $crate::read::object::object! { @ false, $($struct)* }
    };
}
pub(crate) use object;

/// Reads something with named fields.
pub(crate) fn read_object<'de, D: Deserializer<'de>>(
    deserializer: D,
    fields: &mut dyn Fields<'de>,
) -> Result<(), D::Error> {
    deserializer.deserialize_option(ObjectVisitor(fields))
}

/// A value at the current position of serde.
struct Pending<'de, D: Deserializer<'de>> {
    /// `None` once the value has been read.
    deserializer: Option<D>,
    /// Why it could not be read.
    error: Option<D::Error>,
}

impl<'de, D: Deserializer<'de>> Pending<'de, D> {
    fn new(deserializer: D) -> Self {
        Pending { deserializer: Some(deserializer), error: None }
    }

    fn read<T>(&mut self, read: impl FnOnce(D) -> Result<T, D::Error>) -> Result<T, Failed> {
        let Some(deserializer) = self.deserializer.take() else { return Err(Failed) };
        read(deserializer).map_err(|error| {
            self.error = Some(error);
            Failed
        })
    }

    /// Skips the value if it has not been read.
    fn finish(self, read: Result<(), Failed>) -> Result<(), D::Error> {
        match (read, self.deserializer) {
            (Ok(()), None) => Ok(()),
            (Ok(()), Some(unread)) => IgnoredAny::deserialize(unread).map(drop),
            (Err(Failed), _) => Err(self.error.unwrap_or_else(|| de::Error::custom("it is read twice"))),
        }
    }
}

impl<'de, D: Deserializer<'de>> Value<'de> for Pending<'de, D> {
    fn text(&mut self) -> Result<Option<Text<'de>>, Failed> {
        self.read(Option::deserialize)
    }

    fn flag(&mut self) -> Result<Option<bool>, Failed> {
        self.read(Option::deserialize)
    }

    fn raw(&mut self) -> Result<Option<&'de RawValue>, Failed> {
        self.read(Option::deserialize)
    }

    fn choice(&mut self, known: &'static [&'static str]) -> Result<usize, Failed> {
        self.read(|deserializer| deserializer.deserialize_any(ChoiceVisitor(known)))
    }

    fn object(&mut self, fields: &mut dyn Fields<'de>) -> Result<(), Failed> {
        self.read(|deserializer| read_object(deserializer, fields))
    }

    fn list(&mut self, element: &mut dyn ReadElement<'de>) -> Result<(), Failed> {
        self.read(|deserializer| deserializer.deserialize_option(ListVisitor(element)))
    }
}

struct ObjectVisitor<'f, 'de>(&'f mut dyn Fields<'de>);

impl<'de> Visitor<'de> for ObjectVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            map.next_value_seed(Field { key, of: &mut *self.0 })?;
        }
        Ok(())
    }
}

/// The value of one field.
struct Field<'f, 'de> {
    key: Text<'de>,
    of: &'f mut dyn Fields<'de>,
}

impl<'de> DeserializeSeed<'de> for Field<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let mut value = Pending::new(deserializer);
        let read = self.of.read_field(&self.key, &mut value);
        match self.of.strict() {
            Some(known) if read.is_ok() && value.deserializer.is_some() => {
                Err(de::Error::unknown_field(&self.key, known))
            }
            _ => value.finish(read),
        }
    }
}

struct ListVisitor<'f, 'de>(&'f mut dyn ReadElement<'de>);

impl<'de> Visitor<'de> for ListVisitor<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Element(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

struct Element<'f, 'de>(&'f mut dyn ReadElement<'de>);

impl<'de> DeserializeSeed<'de> for Element<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let mut value = Pending::new(deserializer);
        let read = (self.0)(&mut value);
        value.finish(read)
    }
}

struct ChoiceVisitor(&'static [&'static str]);

impl Visitor<'_> for ChoiceVisitor {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<usize, E> {
        self.0.iter().position(|known| *known == text).ok_or_else(|| E::unknown_variant(text, self.0))
    }

    /// YAML 1.1 turns a bare `off` into `false`.
    fn visit_bool<E: de::Error>(self, value: bool) -> Result<usize, E> {
        self.visit_str(if value { "on" } else { "off" })
    }
}

impl<'de, T: FromJson<'de>> FromJson<'de> for Vec<T> {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        let mut list = Vec::new();
        value.list(&mut |value: &mut dyn Value<'de>| {
            list.push(T::from_json(value)?);
            Ok(())
        })?;
        Ok(list)
    }
}

impl<'de: 'a, 'a> Fields<'de> for BTreeMap<Text<'a>, Text<'a>> {
    fn read_field(&mut self, key: &Text<'de>, value: &mut dyn Value<'de>) -> Result<(), Failed> {
        let value = value.text()?.unwrap_or_default();
        self.insert(key.clone(), value);
        Ok(())
    }
}

impl<'de: 'a, 'a> FromJson<'de> for BTreeMap<Text<'a>, Text<'a>> {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        let mut map = BTreeMap::new();
        value.object(&mut map)?;
        Ok(map)
    }
}

/// The types for which [`Value`] has a method.
macro_rules! from_json {
    ($($type:ty = |$value:ident| $read:expr),* $(,)?) => {
        $(impl<'de: 'a, 'a> FromJson<'de> for $type {
            fn from_json($value: &mut dyn Value<'de>) -> Result<Self, Failed> {
                $read
            }
        })*
    };
}
from_json! {
    Text<'a> = |value| Ok(value.text()?.unwrap_or_default()),
    Option<Text<'a>> = |value| value.text(),
    Option<&'a RawValue> = |value| value.raw(),
}

impl<'de> FromJson<'de> for String {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        Ok(value.text()?.map(|text| text.to_string()).unwrap_or_default())
    }
}

impl<'de> FromJson<'de> for Option<String> {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        Ok(value.text()?.map(|text| text.to_string()))
    }
}

impl<'de> FromJson<'de> for bool {
    fn from_json(value: &mut dyn Value<'de>) -> Result<Self, Failed> {
        Ok(value.flag()?.unwrap_or_default())
    }
}
