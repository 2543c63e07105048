// The options of a writer's transformer: what is wrong is told where it stands, and what loads opens.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions, type OptionSources, OptionsError } from '../../config/options.ts'
import { type TransformerOptions, transformerOptions } from '../../pipeline/transformer-options.ts'
import { layoutNames } from '../../transformers/json/layout.ts'
import { openTransformer } from '../../transformers/select.ts'
import { temporaryFolder } from '../temporary-folder.ts'

const schema = Type.Object({ transformer: transformerOptions })

function load(sources: Partial<OptionSources>): TransformerOptions {
  return loadOptions(schema, { environment: {}, ...sources }).transformer
}

function faultsOf(sources: Partial<OptionSources>): string[] {
  try {
    load(sources)
  } catch (error) {
    if (error instanceof OptionsError) return error.faults.map(({ place, problem }) => `${place}: ${problem}`)
    throw error
  }
  return []
}

function fileOf(text: string): string {
  const path = join(temporaryFolder(), 'config.toml')
  writeFileSync(path, text)
  return path
}

const fields = (...entries: object[]): Partial<OptionSources> => ({ environment: { SVC_TRANSFORMER_TIME_FIELDS: JSON.stringify(entries) } })

test('without any, messages are read by their content type, and have the time at which they were received', () => {
  expect(load({})).toEqual({ format: 'auto', contentType: 'application/senml+json', timeFields: [] })
})

test('a configuration of SenML that also has time fields, as writers are shipped with, is taken as it is', () => {
  const file = fileOf(`[transformer]
# SenML or JSON
format = "senml"
# Used if format is SenML
content_type = "application/senml+json"
# Used as timestamp fields if format is JSON
time_fields = [{ field_name = "seconds_key", field_format = "unix",    location = "UTC"},
               { field_name = "millis_key",  field_format = "unix_ms", location = "UTC"},
               { field_name = "micros_key",  field_format = "unix_us", location = "UTC"},
               { field_name = "nanos_key",   field_format = "unix_ns", location = "UTC"}]
`)
  const options = load({ file })
  expect(options).toEqual({
    format: 'senml',
    contentType: 'application/senml+json',
    timeFields: ['seconds', 'millis', 'micros', 'nanos'].map((unit, nth) => ({
      fieldName: `${unit}_key`,
      fieldFormat: ['unix', 'unix_ms', 'unix_us', 'unix_ns'][nth],
      location: 'UTC',
    })),
  })
  expect(() => openTransformer(options)).not.toThrow()
})

test('every named layout in whatever case, a layout of its own and a zone load, and open', () => {
  const formats = [...layoutNames, 'RFC3339', '2006-01-02 15:04:05']
  const entries = formats.map(field_format => ({ field_name: 'at', field_format, location: 'America/New_York' }))
  const options = load(fields(...entries, { field_name: 'at', field_format: 'unix', location: '' }))
  expect(options.timeFields).toHaveLength(formats.length + 1)
  expect(() => openTransformer({ ...options, format: 'json' })).not.toThrow()
})

test('each fault of a time field is told with its line: an empty name, a format that is none, an unknown zone, what is missing', () => {
  const file = fileOf(`[transformer]
format = "json"

[[transformer.time_fields]]
field_name = ""
field_format = "unix_s"
location = "Europe/Bern"

[[transformer.time_fields]]
field_name = "time"
field_fromat = "unix"
location = 1

[[transformer.time_fields]]
field_name = "time"
field_format = 5
`)
  const allowed = `one of unix, unix_ms, unix_us, unix_ns, ${layoutNames.join(', ')}, or the reference time Mon Jan 2 15:04:05 2006 written in your format, as in 2006-01-02 15:04:05`
  const zone = 'a name of the IANA time zone database, such as Europe/Berlin'
  expect(faultsOf({ file })).toEqual([
    `${file}:5: transformer.time_fields[0].field_name is empty: give text that is not empty`,
    `${file}:6: transformer.time_fields[0].field_format is "unix_s": give ${allowed}`,
    `${file}:7: transformer.time_fields[0].location is "Europe/Bern": give ${zone}`,
    `${file}:11: there is no option transformer.time_fields[1].field_fromat: did you mean transformer.time_fields[1].field_format?`,
    `${file}:9: transformer.time_fields[1].field_format is missing: give ${allowed}`,
    `${file}:12: transformer.time_fields[1].location is 1: give ${zone}`,
    `${file}:16: transformer.time_fields[2].field_format is 5: give ${allowed}`,
  ])
})

test('a format and a content type that there are not are faults', () => {
  expect(faultsOf({ environment: { SVC_TRANSFORMER_FORMAT: 'SenML', SVC_TRANSFORMER_CONTENT_TYPE: 'application/json' } })).toEqual([
    'SVC_TRANSFORMER_FORMAT: transformer.format is "SenML": give one of auto, senml, json',
    'SVC_TRANSFORMER_CONTENT_TYPE: transformer.content_type is "application/json": give one of application/senml+json, application/senml+cbor',
  ])
})
