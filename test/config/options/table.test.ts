// Printed options: the README's table, the sample file, and the current values.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Type } from 'typebox'
import { expect, test } from 'vitest'
import { loggingOptions } from '../../../config/logging-options.ts'
import { loadOptions, optionTable, printOptions, sampleFile } from '../../../config/options/options.ts'
import { httpOptions } from '../../../http/options.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

const schema = Type.Object({
  control: Type.Object({
    url: Type.String({ description: 'Where the control plane | answers.', format: 'uri' }),
    token: Type.Optional(Type.String({ secret: true })),
    hosts: Type.Array(Type.String(), { default: ['a', 'b'] }),
    proxies: Type.Array(Type.String(), { default: [] }),
  }),
  name: Type.String({ default: 'x', environment: 'SVC_NAME' }),
})

test('the table has a row for each option, and a pipe in a text does not break it', () => {
  expect(optionTable(schema).split('\n')).toEqual([
    '| Option | Allowed | Default | Meaning |',
    '|---|---|---|---|',
    '| `control.url`<br>`SVC_CONTROL_URL` | a URL | required | Where the control plane \\| answers. |',
    '| `control.token`<br>`SVC_CONTROL_TOKEN` | text | none |  |',
    '| `control.hosts`<br>`SVC_CONTROL_HOSTS` | a list, each text | `a,b` |  |',
    '| `control.proxies`<br>`SVC_CONTROL_PROXIES` | a list, each text | none |  |',
    '| `name`<br>`SVC_NAME` | text | `"x"` |  |',
  ])
})

test('a default that depends on the machine is described in words, so that the table is the same everywhere', () => {
  const workers = Type.Object({ count: Type.Integer({ default: 7, defaultText: 'one for each core' }) })
  expect(optionTable(Type.Object({ workers })).split('\n').at(-1)).toBe(
    '| `workers.count`<br>`SVC_WORKERS_COUNT` | a whole number | one for each core |  |',
  )
})

const tables = Type.Object({
  transformer: Type.Object({
    timeFields: Type.Array(
      Type.Object({
        fieldName: Type.String({ minLength: 1, description: 'The key.' }),
        unit: Type.Enum(['s', 'ms'], { default: 's' }),
        location: Type.Optional(Type.String()),
      }),
      { default: [{ fieldName: 'at', unit: 's' }], examples: [[{ fieldName: 'b', unit: 'ms' }]], description: 'Where the time is.' },
    ),
  }),
})
const listOfTables =
  'a list, each a table with field_name, unit, location: [[transformer.time_fields]] in a file, a JSON array in the variable'

test('the table has a row for each option in a list of tables', () => {
  expect(optionTable(tables).split('\n').slice(2)).toEqual([
    `| \`transformer.time_fields\`<br>\`SVC_TRANSFORMER_TIME_FIELDS\` | ${listOfTables} | \`[{ field_name = "at", unit = "s" }]\` | Where the time is. |`,
    '| `transformer.time_fields[].field_name` | text | required | The key. |',
    '| `transformer.time_fields[].unit` | one of s, ms | `"s"` |  |',
    '| `transformer.time_fields[].location` | text | none |  |',
  ])
})

test('the sample file describes the options in a list of tables', () => {
  expect(sampleFile(tables)).toBe(
    `[transformer]\n# Where the time is.\n# ${listOfTables}; SVC_TRANSFORMER_TIME_FIELDS\n` +
      '# - field_name: text that is not empty; required. The key.\n# - unit: one of s, ms; else "s".\n# - location: text.\n' +
      '# for example time_fields = [{ field_name = "b", unit = "ms" }]\n' +
      '#time_fields = [{ field_name = "at", unit = "s" }]\n',
  )
})

test('a printed list of tables loads as the same value', () => {
  const environment = { SVC_TRANSFORMER_TIME_FIELDS: '[{"field_name":"a\\"b","location":"UTC"},{"field_name":"c","unit":"ms"}]' }
  const options = loadOptions(tables, { environment })
  const file = join(temporaryFolder(), 'printed.toml')
  writeFileSync(file, printOptions(tables, options))
  expect(loadOptions(tables, { file, environment: {} })).toEqual(options)
  expect(options.transformer.timeFields).toHaveLength(2)
})

test('secrets and the passwords of URLs are masked in printed options', () => {
  const options = loadOptions(schema, { environment: { SVC_CONTROL_URL: 'http://me:hidden@host/', SVC_CONTROL_TOKEN: 'hidden' } })
  expect(printOptions(schema, options)).toBe(
    'name = "x"\n\n[control]\nurl = "http://me:***@host/"\ntoken = "***"\nhosts = ["a", "b"]\nproxies = []',
  )
})

test('the sample file loads as the defaults, as it is and with every option uncommented', () => {
  const all = Type.Object({
    admin: Type.Object({
      email: Type.String({ default: 'admin@sluice.local' }),
      password: Type.Optional(Type.String({ minLength: 8, secret: true, description: 'Its password.' })),
      attempts: Type.Optional(Type.Integer({ minimum: 1 })),
    }),
    mirror: Type.Optional(Type.Object({ url: Type.String({ format: 'uri' }), depth: Type.Integer({ default: 3 }) })),
    http: httpOptions,
    logging: loggingOptions,
    lists: Type.Object({ of: Type.Array(Type.Integer(), { default: [1, 2] }) }),
    ...tables.properties,
  })
  const defaults = loadOptions(all, { environment: {} })
  const sample = sampleFile(all)
  for (const text of [sample, sample.replaceAll(/^#(?=\w)/gm, '')]) {
    const file = join(temporaryFolder(), 'sample.toml')
    writeFileSync(file, text)
    expect(loadOptions(all, { file, environment: {} })).toEqual(defaults)
  }
  expect(sample).toContain('# a whole number from 0 to 65535; SVC_HTTP_PORT\n#port = 8080\n')
  expect(sample).toContain('# Its password.\n# text of at least 8 characters; SVC_ADMIN_PASSWORD\n# password = …\n')
})

test('a required option is commented out in the sample file, so that it can be set elsewhere', () => {
  const file = join(temporaryFolder(), 'sample.toml')
  writeFileSync(file, sampleFile(schema).replaceAll(/^#(?=\w)/gm, ''))
  expect(loadOptions(schema, { file, environment: { SVC_CONTROL_URL: 'http://host/' } }).control.url).toBe('http://host/')
})
