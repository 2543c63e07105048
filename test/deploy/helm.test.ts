// The Helm chart, read as text: its options, commands, ports and paths are those of the roles, and its schema covers its values.

import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv } from 'ajv'
import { Registry } from 'prom-client'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { createLogger } from '../../config/logger.ts'
import { listOptions, type OptionSpec } from '../../config/options/schema.ts'
import { healthRoutes } from '../../http/health/health.ts'
import { createServer } from '../../http/server.ts'
import { roles } from '../../roles/roles.ts'
import { storeNameList } from '../../roles/stores/store.ts'
import { root } from '../tidy/files.ts'

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const chart = 'deploy/helm/sluice'
const guide = 'docs/guides/kubernetes.md'

interface Schema {
  readonly $ref?: string
  readonly type?: string
  readonly enum?: readonly string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: Schema | boolean
  readonly definitions: Readonly<Record<string, Schema>>
}
type Values = Readonly<Record<string, unknown>>

const values = parse(read(`${chart}/values.yaml`)) as Values & { readonly stores: Values }
const schema = JSON.parse(read(`${chart}/values.schema.json`)) as Schema
const templates = globSync(`${chart}/templates/*`, { cwd: root }).map(read).join('\n')
/** Without comments. */
const code = templates.replace(/\{\{\/\*.*?\*\/\}\}/gs, '').replace(/^\s*#.*$/gm, '')

describe('options', () => {
  let options: OptionSpec[]
  const chartRoles = Object.keys(roles).filter(name => name !== 'up')
  beforeAll(async () => {
    const schemas = await Promise.all(chartRoles.map(async name => (await roles[name]!()).schema))
    options = schemas.flatMap(schema => listOptions(schema))
  })

  test('each variable in the chart and its guide is an option of a role', () => {
    const known = new Set(options.map(({ variable }) => variable))
    const shown = [templates, read(`${chart}/values.yaml`), read(`${chart}/values.schema.json`), read(guide)].join('\n')
    const named = [...new Set(shown.match(/\bSVC_[A-Z0-9_]*[A-Z0-9]\b/g))]
    expect(named).toContain('SVC_INTERNAL_LISTEN')
    expect(named.filter(name => !known.has(name))).toEqual([])
  })

  test('only an administrator creates users, unless asked otherwise', () => {
    expect(values['api']).toMatchObject({ env: { SVC_USERS_ALLOW_SELF_REGISTER: 'false' } })
  })

  test('secrets can only be given as keys of a Secret: the schema names each option that is one', () => {
    const secrets = new Set(options.filter(({ secret }) => secret).map(({ variable }) => variable!))
    const { secretVariable, chartVariable } = schema.definitions
    expect([...secretVariable!.enum!, 'SVC_CONTROL_TOKEN'].sort()).toEqual([...secrets].sort())
    const set = [...code.matchAll(/"(SVC_\w+)" (?:"|\$v\.controlToken|\(printf "http|\(join "," \$v\.kafka)/g)].map(([, name]) => name!)
    // A writer may have another topic.
    expect(chartVariable!.enum!.toSorted()).toEqual([...new Set(set)].filter(name => name !== 'SVC_LOG_TOPIC').sort())
  })

  test('it has every role and every store', () => {
    const words = [...code.matchAll(/"args" \(list ([^)]+)\)/g)].map(([, words]) => words!.replaceAll('"', ''))
    const named = words.flatMap(words => (words.includes('$store') ? storeNameList.map(store => words.replace('$store', store)) : [words]))
    expect(named.sort()).toEqual(chartRoles.sort())
    expect(Object.keys(values.stores)).toEqual(storeNameList)
  })
})

describe('values', () => {
  const validate = new Ajv({ strict: false }).compile(schema)
  const isValid = (values: unknown): boolean => validate(values)
  const complete = { ...values, kafka: { ...(values['kafka'] as Values), brokers: ['kafka:9092'] } }

  test('the defaults lack only the brokers', () => {
    expect(isValid(complete)).toBe(true)
    expect(isValid(values)).toBe(false)
    expect(validate.errors).toMatchObject([{ instancePath: '/kafka/brokers', keyword: 'minItems' }])
  })

  test('the schema names each value and no other, so that a typo is an error', () => {
    const faults: string[] = []
    const resolve = (of: Schema): Schema => (of.$ref === undefined ? of : schema.definitions[of.$ref.replace('#/definitions/', '')]!)
    const compare = (of: Schema, value: unknown, path: string): void => {
      const { properties, additionalProperties } = resolve(of)
      if (properties === undefined) return
      if (additionalProperties !== false) faults.push(`${path} takes names that the schema does not have`)
      for (const name of Object.keys(value as object))
        if (!Object.hasOwn(properties, name)) faults.push(`${path}.${name} is not in the schema`)
      for (const [name, inner] of Object.entries(properties)) {
        const isOverride = /^\.stores\.\w+\.(writer|reader)$/.test(path)
        if (Object.hasOwn(value as object, name)) compare(inner, (value as Values)[name], `${path}.${name}`)
        else if (!isOverride && `${path}.${name}` !== '.global') faults.push(`${path}.${name} is not in values.yaml`)
      }
    }
    compare(schema, values, '')
    expect(faults).toEqual([])
  })

  test.each([
    ['a misspelt value', { replcas: 1 }],
    ['a misspelt option', { env: { SCV_ENV: 'production' } }],
    ['an option whose value is a number', { env: { SVC_LOG_QUEUE_BYTES: 1_000_000 } }],
    ['a secret among the options', { env: { SVC_MASTER_KEY: 'the key itself' } }],
    ['an option that the chart sets', { env: { SVC_HTTP_PORT: '80' } }],
    ['TLS at the port of the probes', { env: { SVC_INTERNAL_CERT_FILE: '/mnt/tls/tls.crt' } }],
    ['a secret given as a text', { secrets: { SVC_MASTER_KEY: 'the key itself' } }],
    ['an option that is no secret', { secrets: { SVC_LOG_TOPIC: { existingSecret: 'sluice', key: 'topic' } } }],
  ])('%s is an error', (_what, of) => {
    expect(isValid({ ...complete, api: { ...(values['api'] as Values), ...of } })).toBe(false)
  })

  test('each section has a comment, and templates use every one and no other', () => {
    const lines = read(`${chart}/values.yaml`).split('\n')
    for (const name of Object.keys(values)) {
      const at = lines.findIndex(line => line.startsWith(`${name}:`))
      expect(lines[at - 1], `the line above ${name}`).toMatch(/^# /)
    }
    const used = [...code.matchAll(/(?:\.Values|\$v)\.([\w.]+)/g)].map(([, path]) => path!)
    const valueAt = (path: string): unknown =>
      path.split('.').reduce((value: unknown, name) => (value as Values | undefined)?.[name], values)
    expect(used.filter(path => valueAt(path) === undefined)).toEqual([])
    const roleValues = [...code.matchAll(/\.values\.(\w+)/g)].map(([, name]) => name!)
    expect([...new Set(roleValues)].filter(name => !Object.hasOwn(values['api'] as Values, name))).toEqual([])
    expect([...new Set(used.map(path => path.split('.', 1)[0]!))].sort()).toEqual(Object.keys(values).sort())
  })
})

test('probes and Prometheus ask for paths that the internal port has', async () => {
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  healthRoutes(app, { version: '0', checks: {}, ready: () => true, registry: new Registry() })
  const paths = new Set([...code.matchAll(/\bpath: (\/[a-z]+)/g)].map(([, path]) => path!))
  expect([...paths].sort()).toEqual(['/livez', '/metrics', '/readyz'])
  for (const url of paths) expect((await app.inject({ url })).statusCode, url).toBe(200)
  // Alerts look for a job of that name, and the name of a service may be cut off.
  const [, label] = /jobLabel: (.*)/.exec(code)!
  expect(code).toContain(`\n${label}: sluice\n`)
  await app.close()
})

test('the chart has the version of the project, the user of the image, and time for a stop', () => {
  const { version } = JSON.parse(read('package.json')) as { version: string }
  expect(parse(read(`${chart}/Chart.yaml`))).toMatchObject({ version, appVersion: version })
  const [, user, group] = /^ARG RUN_AS=(\d+):(\d+)$/m.exec(read('deploy/Dockerfile'))!
  expect(code).toContain(`runAsUser: ${user}`)
  expect(code).toContain(`runAsGroup: ${group}`)
  const seconds = (pattern: RegExp): number => Number(pattern.exec(code)![1])
  // Beside those of the stop.
  expect(seconds(/terminationGracePeriodSeconds: \{\{ add (\d+) \(\.env\.SVC_PROCESS_STOP_SECONDS/)).toBeGreaterThan(
    seconds(/sleep: \{ seconds: (\d+) \}/),
  )
})
