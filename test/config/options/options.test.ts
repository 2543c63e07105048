// Options: where a value comes from, and that every fault is reported with its place and what is allowed.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from 'typebox'
import { expect, expectTypeOf, test } from 'vitest'
import { loadOptions, type OptionSources, OptionsError, variablesOf } from '../../../config/options/options.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

const schema = Type.Object({
  http: Type.Object({
    host: Type.String({ default: '127.0.0.1', minLength: 1 }),
    port: Type.Integer({ default: 8080, minimum: 0, maximum: 65535, flag: '--port' }),
  }),
  batch: Type.Object({
    rows: Type.Integer({ default: 2000, minimum: 1 }),
    ageMs: Type.Number({ default: 200.5, minimum: 0 }),
  }),
  log: Type.Object({
    brokers: Type.Array(Type.String({ minLength: 1 }), { default: [] }),
    client: Type.Enum(['kafkajs', 'platformatic'], { default: 'kafkajs' }),
  }),
  users: Type.Object({ allowSelfRegister: Type.Boolean({ default: true, environment: 'SVC_USERS_ALLOW_SELF_REGISTER' }) }),
  control: Type.Object({
    url: Type.Optional(Type.String({ format: 'uri' })),
    token: Type.Optional(Type.String({ secret: true, minLength: 16 })),
  }),
})

function load(sources: Partial<OptionSources> = {}) {
  return loadOptions(schema, { environment: {}, ...sources })
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
  const path = join(temporaryFolder(), 'sluice.toml')
  writeFileSync(path, text)
  return path
}

test('without sources the value is the defaults, frozen at every depth, with the type of the schema', () => {
  const options = load()
  expect(options).toEqual({
    http: { host: '127.0.0.1', port: 8080 },
    batch: { rows: 2000, ageMs: 200.5 },
    log: { brokers: [], client: 'kafkajs' },
    users: { allowSelfRegister: true },
    control: {},
  })
  expect([options, options.http, options.log.brokers].every(Object.isFrozen)).toBe(true)
  expectTypeOf(options.http.port).toBeNumber()
})

test('the file overrides the defaults, the environment the file, the command line the environment', () => {
  const file = fileOf('[http]\nhost = "::"\nport = 1\n[batch]\nrows = 5\nage_ms = 7\n')
  const options = load({
    file,
    environment: { SVC_HTTP_PORT: '2', SVC_BATCH_ROWS: '6' },
    overrides: { http: { port: '3', host: undefined } },
  })
  expect(options.http).toEqual({ host: '::', port: 3 })
  expect(options.batch).toEqual({ rows: 6, ageMs: 7 })
})

test("texts of the environment are converted to the schema's types", () => {
  const options = load({
    environment: {
      SVC_BATCH_AGE_MS: '1e2',
      SVC_LOG_BROKERS: 'one:9092, two:9092',
      SVC_LOG_CLIENT: 'platformatic',
      SVC_USERS_ALLOW_SELF_REGISTER: 'false',
    },
  })
  expect(options.batch.ageMs).toBe(100)
  expect(options.log).toEqual({ brokers: ['one:9092', 'two:9092'], client: 'platformatic' })
  expect(options.users.allowSelfRegister).toBe(false)
})

test.each([
  ['SVC_HTTP_PORT', '', 'http.port is empty: give a whole number from 0 to 65535'],
  ['SVC_HTTP_PORT', '0x10', 'http.port is "0x10": give a whole number from 0 to 65535'],
  ['SVC_HTTP_PORT', '80.5', 'http.port is "80.5": give a whole number from 0 to 65535'],
  ['SVC_HTTP_PORT', '65536', 'http.port is 65536: give a whole number from 0 to 65535'],
  ['SVC_HTTP_HOST', '', 'http.host is empty: give text that is not empty'],
  ['SVC_USERS_ALLOW_SELF_REGISTER', 'no', 'users.allow_self_register is "no": give true or false'],
  ['SVC_USERS_ALLOW_SELF_REGISTER', 'False', 'users.allow_self_register is "False": give true or false'],
  ['SVC_LOG_CLIENT', 'java', 'log.client is "java": give one of kafkajs, platformatic'],
  ['SVC_LOG_BROKERS', 'one,,two', 'log.brokers is ["one","","two"]: give a list, each text that is not empty'],
  ['SVC_CONTROL_URL', 'somewhere', 'control.url is "somewhere": give a URL'],
])('%s=%s is a fault that says what is allowed', (variable, text, problem) => {
  expect(faultsOf({ environment: { [variable]: text } })).toEqual([`${variable}: ${problem}`])
})

test('all faults are reported together, those of the file with their lines', () => {
  const file = fileOf('[http]\nport = "80"\n\n[batch]\nrows = 0\nrosw = 3\n\n[htpp]\nhost = "x"\n')
  expect(faultsOf({ file, environment: { SVC_HTTP_PROT: '1', SVC_LOG_CLIENT: 'java' }, overrides: { http: { port: 'x' } } })).toEqual([
    `${file}:6: unknown option batch.rosw: did you mean batch.rows?`,
    `${file}:8: unknown option htpp: did you mean http?`,
    'SVC_HTTP_PROT: unknown variable: did you mean SVC_HTTP_PORT?',
    `${file}:2: http.port is "80": give a whole number from 0 to 65535`,
    '--port: http.port is "x": give a whole number from 0 to 65535',
    `${file}:5: batch.rows is 0: give a whole number of at least 1`,
    'SVC_LOG_CLIENT: log.client is "java": give one of kafkajs, platformatic',
  ])
})

test('a key in the wrong section is reported with the right one, an unknown one with the known ones', () => {
  const file = fileOf('port = 80\n[http]\nbrokers = ["a"]\nsomething_else = 1\n')
  expect(faultsOf({ file })).toEqual([
    `${file}:1: unknown option port: did you mean http.port?`,
    `${file}:3: unknown option http.brokers: did you mean log.brokers?`,
    `${file}:4: unknown option http.something_else: the options here are host, port`,
  ])
})

test('a variable of another role is not a fault, an unknown one is', () => {
  const environment = { SVC_PROVISION_USER: 'a', SVC_XYZ: 'b', OTHER: 'c' }
  expect(faultsOf({ environment, otherVariables: ['SVC_PROVISION_USER'] })).toEqual(['SVC_XYZ: unknown variable: unset it'])
  expect(variablesOf(schema)).toContain('SVC_CONTROL_TOKEN_FILE')
})

test('a secret is read from the file in its variable, without the line end', () => {
  const path = fileOf('0123456789abcdef\n')
  expect(load({ environment: { SVC_CONTROL_TOKEN_FILE: path } }).control.token).toBe('0123456789abcdef')
})

test('a fault never shows a secret, nor the password of a URL', () => {
  const faults = faultsOf({ environment: { SVC_CONTROL_TOKEN: 'short-secret', SVC_CONTROL_URL: 'http://user:hidden@a b/' } })
  expect(faults).toEqual([
    'SVC_CONTROL_URL: control.url is "http://user:***@a b/": give a URL',
    'SVC_CONTROL_TOKEN: control.token is set (value not shown): give text of at least 16 characters',
  ])
})

test('a secret that is given twice, and its unreadable file, are faults', () => {
  expect(faultsOf({ environment: { SVC_CONTROL_TOKEN: 'x'.repeat(16), SVC_CONTROL_TOKEN_FILE: '/nowhere' } })).toEqual([
    'SVC_CONTROL_TOKEN_FILE: SVC_CONTROL_TOKEN is set too: unset one of them',
  ])
  expect(faultsOf({ environment: { SVC_CONTROL_TOKEN_FILE: '/nowhere' } })).toEqual([
    'SVC_CONTROL_TOKEN_FILE: the file "/nowhere" cannot be read (ENOENT): give the path of a file that contains control.token',
  ])
})

test('a missing file is a fault, and one that is not TOML with its line', () => {
  expect(faultsOf({ file: '/nowhere.toml' })).toEqual(['/nowhere.toml: file not found: give the path of a TOML file'])
  const broken = fileOf('[http]\nport = 80\nhost = ::\n')
  expect(faultsOf({ file: broken })).toEqual([
    `${broken}:3: this is not TOML: unexpected text at column 8; put text in quotes and a section in [brackets]`,
  ])
  const twice = fileOf('[http]\nport = 80\nport = 81\n')
  expect(faultsOf({ file: twice })).toEqual([`${twice}:3: this is not TOML: Cannot redefine existing key 'http.port'.`])
})

test.each([
  ['98765432109876543', 'invalid value for TOML'],
  ['99999999999999999999', 'invalid value for TOML'],
  ['1987-65-43', 'invalid value for TOML'],
  ['"\\uDEAD-more"', 'invalid value for TOML'],
  ['zZ9-plural', 'unexpected text at column 9'],
  ['"zZ9-plural', 'unexpected text at column 20'],
])('a secret that is not text, %s, is in no message', (secret, problem) => {
  const file = fileOf(`[control]\ntoken = ${secret}\n`)
  const faults = faultsOf({ file })
  expect(faults).toEqual([`${file}:2: this is not TOML: ${problem}; put text in quotes and a section in [brackets]`])
})

test('an empty path, and the variable of a path, are reported', () => {
  expect(faultsOf({ file: '' })).toEqual(['options file: its path is empty: give the path of a TOML file'])
  const environment = { SVC_WRITER_CONFIG_PATH: '/nowhere.toml' }
  expect(faultsOf({ environment, fileVariable: 'SVC_WRITER_CONFIG_PATH' })).toEqual([
    '/nowhere.toml (SVC_WRITER_CONFIG_PATH): file not found: give the path of a TOML file',
  ])
  expect(load({ environment: { SVC_WRITER_CONFIG_PATH: '' }, fileVariable: 'SVC_WRITER_CONFIG_PATH' }).http.port).toBe(8080)
})

test('a prototype key in a file is an unknown key', () => {
  const file = fileOf('[http]\n__proto__ = 1\nconstructor = 2\n')
  expect(faultsOf({ file })).toHaveLength(2)
})

test('a missing required option is reported with the ways to set it', () => {
  const required = Type.Object({
    store: Type.Object({ url: Type.String({ environment: 'SVC_RELATIONAL_URL', allowed: 'a URL such as postgres://host/name' }) }),
  })
  expect(() => loadOptions(required, { environment: {} })).toThrow(
    'store.url: it is required: set SVC_RELATIONAL_URL or write store.url in a file; give a URL such as postgres://host/name',
  )
})

test('an optional section is absent with its defaults, and required completely once a part is given', () => {
  const withTls = Type.Object({ tls: Type.Optional(Type.Object({ key: Type.String(), version: Type.Integer({ default: 3 }) })) })
  expect(loadOptions(withTls, { environment: {} })).toEqual({})
  expect(loadOptions(withTls, { environment: { SVC_TLS_KEY: 'k' } })).toEqual({ tls: { key: 'k', version: 3 } })
  expect(() => loadOptions(withTls, { environment: { SVC_TLS_VERSION: '2' } })).toThrow('tls.key: it is required')
})

const fields = Type.Object({
  fieldName: Type.String({ minLength: 1 }),
  unit: Type.Enum(['s', 'ms'], { default: 's' }),
  location: Type.Optional(Type.String()),
})
const withTables = Type.Object({ transformer: Type.Object({ timeFields: Type.Array(fields, { default: [], maxItems: 2 }) }) })
const tableFaultsOf = (sources: Partial<OptionSources>): string[] => {
  try {
    loadOptions(withTables, { environment: {}, ...sources })
  } catch (error) {
    return (error as OptionsError).faults.map(({ place, problem }) => `${place}: ${problem}`)
  }
  return []
}

test('a list of tables is read from a file in both forms and from a variable as JSON, each table with its defaults', () => {
  const given = [
    { file: fileOf('[[transformer.time_fields]]\nfield_name = "a"\n[[transformer.time_fields]]\nfield_name = "b"\nunit = "ms"\n') },
    { file: fileOf('[transformer]\ntime_fields = [{ field_name = "a" },\n               { field_name = "b", unit = "ms" }]\n') },
    { environment: { SVC_TRANSFORMER_TIME_FIELDS: '[{"field_name":"a"},{"unit":"ms","field_name":"b"}]' } },
  ]
  for (const sources of given) {
    const { transformer } = loadOptions(withTables, { environment: {}, ...sources })
    expect(transformer.timeFields).toEqual([
      { fieldName: 'a', unit: 's' },
      { fieldName: 'b', unit: 'ms' },
    ])
    expect(Object.isFrozen(transformer.timeFields[0])).toBe(true)
  }
  const { transformer } = loadOptions(withTables, { file: given[0]!.file!, environment: { SVC_TRANSFORMER_TIME_FIELDS: '' } })
  expect(transformer.timeFields).toEqual([])
})

test('each fault in a list of tables is reported with its own line', () => {
  const file = fileOf(
    '[[transformer.time_fields]]\nfield_name = ""\n\n[[ transformer.time_fields ]]\nunit = "ns"\nlocaton = "UTC"\n"other key" = 1\n',
  )
  expect(tableFaultsOf({ file })).toEqual([
    `${file}:2: transformer.time_fields[0].field_name is empty: give text that is not empty`,
    `${file}:6: unknown option transformer.time_fields[1].locaton: did you mean transformer.time_fields[1].location?`,
    `${file}:7: unknown option transformer.time_fields[1].other key: the options here are field_name, unit, location`,
    `${file}:4: transformer.time_fields[1].field_name is missing: give text that is not empty`,
    `${file}:5: transformer.time_fields[1].unit is "ns": give one of s, ms`,
  ])
  const inline = fileOf('[transformer]\ntime_fields = [{ field_name = "a" }, { field_name = 1 }]\n')
  expect(tableFaultsOf({ file: inline })).toEqual([`${inline}:2: transformer.time_fields[1].field_name is 1: give text that is not empty`])
})

test.each([
  ['[{]', '"[{]"'],
  ['{"field_name":"a"}', '{"field_name":"a"}'],
  ['[{"field_name":"a"},{"field_name":"b"},{"field_name":"c"}]', '[{"field_name":"a"},{"field_name":"b"},{"field_name":"c"}]'],
])('%s is not a list of tables, and the error says how to write one', (text, shown) => {
  const words =
    'a list of at most 2 items, each a table with field_name, unit, location: [[transformer.time_fields]] in a file, a JSON array in the variable'
  expect(tableFaultsOf({ environment: { SVC_TRANSFORMER_TIME_FIELDS: text } })).toEqual([
    `SVC_TRANSFORMER_TIME_FIELDS: transformer.time_fields is ${shown}: give ${words}`,
  ])
})

test('elements of a list of tables that are not tables, or have a prototype key, are reported', () => {
  expect(tableFaultsOf({ environment: { SVC_TRANSFORMER_TIME_FIELDS: '["a",{"field_name":"b","__proto__":1}]' } })).toEqual([
    'SVC_TRANSFORMER_TIME_FIELDS: transformer.time_fields[0] is "a": give a table with field_name, unit, location',
    'SVC_TRANSFORMER_TIME_FIELDS: unknown option transformer.time_fields[1].__proto__: the options here are field_name, unit, location',
  ])
})

test('a secret in a list of tables is a bug in the schema', () => {
  const wrong = Type.Object({ a: Type.Array(Type.Object({ b: Type.String({ secret: true }) }), { default: [] }) })
  expect(() => loadOptions(wrong, { environment: {} })).toThrow('a contains a secret, b: make it a separate option')
})

test('structures are accepted from a file only, and their faults name the place', () => {
  const labels = Type.Object({ log: Type.Object({ labels: Type.Record(Type.String(), Type.Integer(), { default: {} }) }) })
  const good = fileOf('[log]\nlabels = { a = 1 }\n')
  expect(loadOptions(labels, { file: good, environment: {} }).log.labels).toEqual({ a: 1 })
  const bad = fileOf('[log.labels]\na = 1\nb = "c"\n')
  expect(() => loadOptions(labels, { file: bad, environment: {} })).toThrow(/sluice.toml:1: log.labels at \/b must be integer/)
  expect(() => loadOptions(labels, { environment: { SVC_LOG_LABELS: '{}' } })).toThrow('unknown variable')
})

test('two options with one variable are a bug in the schema', () => {
  const wrong = Type.Object({
    a: Type.Object({ b: Type.String({ default: '' }) }),
    c: Type.Object({ d: Type.String({ default: '', environment: 'SVC_A_B' }) }),
  })
  expect(() => loadOptions(wrong, { environment: {} })).toThrow('the options a.b and c.d share the variable SVC_A_B')
})
