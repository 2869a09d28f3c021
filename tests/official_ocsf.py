"""The official OCSF schema, as the package ocsf-json-schema has it, and what an event of ours breaks of it."""

import functools

from jsonschema import Draft202012Validator
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

# `time_dt` and `device` come with these profiles of the class.
PROFILES = ["datetime", "host"]
# Written by every implementation of this format, and in no version of the schema.
OURS = "Additional properties are not allowed ('mapping_version' was unexpected)"


@functools.cache
def validator(version, class_uid):
    schemas = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=version))
    schema = schemas.get_class_schema(schemas.lookup_class_name_from_uid(class_uid), PROFILES)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def problems(event):
    """Return (place, what is wrong) of an event by the class and version that it names."""
    errors = validator(event["metadata"]["version"], event["class_uid"]).iter_errors(event)
    found = [("/".join(map(str, error.path)), error.message) for error in errors]
    return [problem for problem in found if problem != ("metadata", OURS)]
