// The options of a writer's transformer: every fault is reported with its place, and valid options can be opened.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loadOptions, type OptionSources, OptionsError } from '../../config/options/options.ts'
import { type TransformerOptions, transformerOptions } from '../../pipeline/transformer-options.ts'
import { layoutNames } from '../../transformers/json/times/layout.ts'
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

test('by default messages are decoded by their content type or their root, with the time of receipt', () => {
  expect(load({})).toEqual({ format: 'auto', timeFields: [] })
})

test('a SenML configuration that also has time fields, as shipped with writers, is accepted', () => {
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

test('named layouts in any case, a custom layout and a zone load, and open', () => {
  const formats = [...layoutNames, 'rfc3339', 'RFC3339Nano', '2006-01-02 15:04:05']
  const entries = formats.map(field_format => ({ field_name: 'at', field_format, location: 'America/New_York' }))
  const options = load(fields(...entries, { field_name: 'at', field_format: 'unix', location: '' }))
  expect(options.timeFields).toHaveLength(formats.length + 1)
  expect(() => openTransformer({ ...options, format: 'json' })).not.toThrow()
})

test('each fault of a time field is reported with its line: an empty name, an invalid format, an unknown zone, missing keys', () => {
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
  const allowed = `one of unix, unix_ms, unix_us, unix_ns, rfc3339, rfc3339nano, ${layoutNames.join(', ')}, or the reference time Mon Jan 2 15:04:05 2006 written in your format, as in 2006-01-02 15:04:05`
  const zone = 'a name of the IANA time zone database, such as Europe/Berlin'
  expect(faultsOf({ file })).toEqual([
    `${file}:5: transformer.time_fields[0].field_name is empty: give text that is not empty`,
    `${file}:6: transformer.time_fields[0].field_format is "unix_s": give ${allowed}`,
    `${file}:7: transformer.time_fields[0].location is "Europe/Bern": give ${zone}`,
    `${file}:11: unknown option transformer.time_fields[1].field_fromat: did you mean transformer.time_fields[1].field_format?`,
    `${file}:9: transformer.time_fields[1].field_format is missing: give ${allowed}`,
    `${file}:12: transformer.time_fields[1].location is 1: give ${zone}`,
    `${file}:16: transformer.time_fields[2].field_format is 5: give ${allowed}`,
  ])
})

test('an unknown format and an unknown content type are faults', () => {
  expect(faultsOf({ environment: { SVC_TRANSFORMER_FORMAT: 'SenML', SVC_TRANSFORMER_CONTENT_TYPE: 'application/json' } })).toEqual([
    'SVC_TRANSFORMER_FORMAT: transformer.format is "SenML": give one of auto, senml, json',
    'SVC_TRANSFORMER_CONTENT_TYPE: transformer.content_type is "application/json": give one of application/senml+json, application/senml+cbor',
  ])
})

test.each(['events', 'Room-1', '7_days', 'a'.repeat(100)])('%s may be the default format', defaultFormat => {
  expect(load({ environment: { SVC_TRANSFORMER_DEFAULT_FORMAT: defaultFormat } })).toMatchObject({ defaultFormat })
})

test.each(['messages', 'a.b', '_a', 'a b', 'ä', '', 'a'.repeat(101)])('"%s" may not be the default format', defaultFormat => {
  const [fault, ...others] = faultsOf({ environment: { SVC_TRANSFORMER_DEFAULT_FORMAT: defaultFormat } })
  expect(others).toEqual([])
  expect(fault).toMatch(
    /^SVC_TRANSFORMER_DEFAULT_FORMAT: transformer\.default_format is .*: give up to 100 letters, digits, _ and -, beginning with a letter or digit, but not messages, which holds SenML$/,
  )
})

test('a list of content types has known ones, and an empty variable is not an empty list', () => {
  const taken = (text: string): Partial<OptionSources> => ({ environment: { SVC_TRANSFORMER_CONTENT_TYPES: text } })
  expect(load(taken('application/json, application/senml+cbor')).contentTypes).toEqual(['application/json', 'application/senml+cbor'])
  expect(load(taken('other')).contentTypes).toEqual(['other'])
  expect(faultsOf(taken('text/plain'))).toEqual([expect.stringMatching(/CONTENT_TYPES.*application\/senml\+json.*other/)])
  expect(faultsOf(taken(''))).toHaveLength(1)
})
