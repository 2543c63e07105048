// deploy/compose.yaml without a container: its schema, commands, variables, files, networks and limits, and the metrics that it shows.

import { execFile } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Ajv } from 'ajv'
import { collectDefaultMetrics, Registry } from 'prom-client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { variablesOf } from '../../config/options/options.ts'
import { roles } from '../../roles/roles.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import { metrics } from '../tidy/metrics.ts'
import { addressOf, deployFolder, makeSecrets, networksOf, readCompose, roleOf, secretsOf } from './compose.ts'

const compose = readCompose()
const { services } = compose
const names = Object.keys(services)
const roleServices = Object.entries(services).flatMap(([name, service]) => {
  const role = roleOf(service)
  return role === undefined ? [] : [{ name, role, service }]
})
const stores = ['postgres', 'cassandra', 'influxdb', 'mongodb']

/** What `docker compose --profile … up` starts. */
const startedWith = (...profiles: string[]): string[] =>
  names.filter(name => services[name]!.profiles?.some(profile => profiles.includes(profile)) ?? true)

const relational = ['kafka', 'postgres', 'api', 'ingest-1', 'ingest-2', 'writer-relational', 'reader-relational']
const around = ['nginx', 'prometheus', 'grafana']

test('it is valid by the schema of the Compose specification', () => {
  const schema = JSON.parse(readFileSync(join(root, 'test/deploy/fixtures/compose-spec.json'), 'utf8')) as object
  const ajv = new Ajv({ strict: false, validateFormats: false })
  ajv.addMetaSchema({
    ...(ajv.getSchema('http://json-schema.org/draft-07/schema')!.schema as object),
    $id: 'https://json-schema.org/draft-07/schema',
  })
  const validate = ajv.compile(schema)
  validate(compose)
  expect(validate.errors).toBeNull()
  expect(validate({ ...compose, services: { api: { ...services['api'], comand: ['api'] } } })).toBe(false)
})

test('without a profile it is the relational set; a store comes with its writer and reader, and `all` has every store', () => {
  expect(startedWith().sort()).toEqual([...relational, ...around].sort())
  expect(startedWith('document').sort()).toEqual([...relational, ...around, 'mongodb', 'writer-document', 'reader-document'].sort())
  expect(startedWith('bridge').sort()).toEqual([...relational, ...around, 'bridge'].sort())
  expect(startedWith('all').sort()).toEqual(names.filter(name => name !== 'demo' && name !== 'bridge').sort())
  expect(roleServices.map(({ role }) => role).sort()).toEqual([...Object.keys(roles).filter(role => role !== 'up'), 'ingest'].sort())
})

test('only an administrator creates users, unless asked otherwise', () => {
  const variable = 'SVC_USERS_ALLOW_SELF_REGISTER'
  expect(services['api']!.environment![variable]).toBe('false')
  const opened = readCompose({ SLUICE_USER: '65532:65532', SLUICE_ALLOW_SELF_REGISTER: 'true' })
  expect(opened.services['api']!.environment![variable]).toBe('true')
})

test('one service builds the image of all roles, and none asks a registry for it', () => {
  const own = names.filter(name => services[name]!.image.startsWith('sluice:'))
  expect(own.filter(name => services[name]!.build !== undefined)).toEqual(['api'])
  expect(own.filter(name => services[name]!.pull_policy !== 'never')).toEqual([])
})

test('PostgreSQL may have a process for each connection that it allows', () => {
  const { command = [], deploy } = services['postgres']!
  const connections = Number(/max_connections=(\d+)/.exec(command.join(' '))![1])
  expect(deploy.resources.limits.pids).toBeGreaterThan(connections + 50)
})

test('PostgreSQL has the settings that the page of the store advises', () => {
  const page = readFileSync(join(root, 'docs/stores/postgres.md'), 'utf8')
  const [, section = ''] = /^## Server settings that pay$(.*?)^## /ms.exec(page) ?? []
  const advised = [...section.matchAll(/^\| `(\w+)` \| `(\w+)` \|/gm)].map(([, name, value]) => `${name}=${value}`)
  expect(advised).toHaveLength(3)
  expect(services['postgres']!.command).toEqual(expect.arrayContaining(advised))
})

test("the first start of PostgreSQL shows no password in a process's arguments", async () => {
  const folder = temporaryFolder()
  const { path } = await makeSecrets(folder)
  const program = join(folder, 'psql')
  writeFileSync(program, '#!/bin/sh\necho "$@"\nenv\n', { mode: 0o755 })
  const given = [...secretsOf(services['postgres']!)].map(
    ([mounted, secret]) => [mounted.replace('/run/secrets/', ''), readFileSync(join(path, secret), 'utf8').trim()] as const,
  )
  const env = { PATH: `${folder}:${process.env['PATH']}`, POSTGRES_USER: 'postgres', ...Object.fromEntries(given) }
  const { stdout } = await promisify(execFile)('sh', [join(deployFolder, 'compose/postgres.sh')], { env })
  const [shown, ...variables] = stdout.split('\n')
  for (const [name, url] of given.filter(([, value]) => value.startsWith('postgres:'))) {
    const { password } = new URL(url)
    expect([name, shown!.includes(password), variables.some(line => line.endsWith(`=${password}`))]).toEqual([name, false, true])
  }
})

// As a file it could be as large as 1 GiB for each answer, which in a container is memory.
test.each(['compose/nginx.conf', 'proxies/nginx.conf'])('%s keeps no answer in a file for a slow client', file => {
  expect(readFileSync(join(deployFolder, file), 'utf8')).toMatch(/^ *proxy_max_temp_file_size 0;$/m)
})

test('without secrets it says how to make them', () => {
  expect(() => readCompose({})).toThrow('run deploy/compose/secrets.sh first')
})

test.each(names)('%s has an exact version, few rights, limits and a health check', name => {
  const service = services[name]!
  expect(service.image).toMatch(/^(postgres:\d+\.\d+|([a-z]+\/)?[a-z]+:v?\d+\.\d+\.\d+)$/)
  expect(service.cap_drop).toEqual(['ALL'])
  expect(service.security_opt).toEqual(['no-new-privileges:true'])
  expect(service.deploy.resources.limits).toEqual({ memory: expect.stringMatching(/^\d+[MG]$/), pids: expect.any(Number) })
  // The entry points of these write into their image.
  expect(service.read_only === true).toBe(!['kafka', 'cassandra'].includes(name))
  // Only the entry points of stores begin as root.
  expect(service.cap_add !== undefined).toBe(stores.includes(name))
  expect(service.user !== undefined).toBe(![...stores, 'kafka', 'prometheus'].includes(name))
  if (name === 'demo') return
  expect(service.restart).toBe('unless-stopped')
  expect(service.healthcheck?.test !== undefined).toBe(roleOf(service) === undefined)
})

test('a service starts when those that it needs are healthy, which its profiles start too', () => {
  for (const [name, { depends_on: needed = {}, profiles = [] }] of Object.entries(services)) {
    for (const [other, { condition }] of Object.entries(needed)) {
      expect([name, other, condition]).toEqual([name, other, 'service_healthy'])
      for (const profile of [undefined, ...profiles]) {
        if (startedWith(profile ?? '').includes(name)) expect(startedWith(profile ?? '')).toContain(other)
      }
    }
  }
  expect(roleServices.flatMap(({ role, service }) => (Object.keys(service.depends_on!).length === 0 ? [role] : []))).toEqual([])
})

describe('secrets.sh', () => {
  test('makes each secret that is used, with mode 0600, and a certificate for the names given', async () => {
    const { path } = await makeSecrets(temporaryFolder(), ['sluice.example.com', '192.0.2.7', '2001:db8::7'])
    expect(readdirSync(path).sort()).toEqual(Object.keys(compose.secrets).sort())
    expect(Object.entries(compose.secrets).filter(([name, { file }]) => file !== `./compose/secrets/${name}`)).toEqual([])
    for (const file of readdirSync(path)) expect((statSync(join(path, file)).mode & 0o777).toString(8)).toBe('600')
    const isRoot = process.getuid!() === 0
    const owner = isRoot ? '65532:65532' : `${process.getuid!()}:${process.getgid!()}`
    expect(readFileSync(join(path, '../../.env'), 'utf8')).toBe(`SLUICE_USER=${owner}\n`)
    const { uid, gid } = statSync(join(path, 'master-key'))
    expect(`${uid}:${gid}`).toBe(owner)
    const { subjectAltName } = new X509Certificate(readFileSync(join(path, 'front.pem')))
    expect(subjectAltName).toBe(
      'DNS:localhost, IP Address:127.0.0.1, DNS:nginx, DNS:sluice.example.com, IP Address:192.0.2.7, IP Address:2001:DB8:0:0:0:0:0:7',
    )
  })

  test('keeps what is there, and makes what is missing', async () => {
    const folder = temporaryFolder()
    const { path } = await makeSecrets(folder)
    const bytes = (): string[] => readdirSync(path).map(file => readFileSync(join(path, file), 'utf8'))
    const first = bytes()
    expect(new Set(first).size).toBe(first.length)
    expect((await makeSecrets(folder)).printed).not.toContain('made')
    expect(bytes()).toEqual(first)
    rmSync(join(path, 'front.pem'))
    expect((await makeSecrets(folder, ['other.example'])).printed.match(/^made .*/gm)).toEqual(['made  secrets/front.pem'])
    const certificate = new X509Certificate(readFileSync(join(path, 'front.pem')))
    expect(certificate.subjectAltName).toContain('other.example')
    expect(certificate.checkPrivateKey(createPrivateKey(readFileSync(join(path, 'front-key.pem'))))).toBe(true)
  })
})

describe('a role', () => {
  let folder: string
  let secrets: string
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'sluice-compose-'))
    secrets = (await makeSecrets(folder)).path
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))

  test.each(roleServices)('$name takes each of its variables, and their values', async ({ role, service }) => {
    const { schema, load, fileVariable } = await roles[role]!()
    const environment = service.environment ?? {}
    const known = [...variablesOf(schema), fileVariable]
    expect(Object.keys(environment).filter(variable => !known.includes(variable))).toEqual([])
    const read = Object.entries(environment).map(([variable, value]) => {
      if (!variable.endsWith('_FILE')) return [variable, value] as const
      return [variable, join(secrets, secretsOf(service).get(value) ?? `${value} is not mounted`)] as const
    })
    // The image's own, of deploy/Dockerfile.
    const imageEnvironment = { SVC_HTTP_HOST: '0.0.0.0', SVC_INTERNAL_LISTEN: '0.0.0.0:9080' }
    expect(() => load({ environment: { ...imageEnvironment, ...Object.fromEntries(read) } })).not.toThrow()
    expect(Object.keys(environment).filter(variable => variable.endsWith('_FILE'))).toHaveLength(service.secrets?.length ?? 0)
  })

  test.each(roleServices)('$name shares a network with each server that its variables name', ({ name, service }) => {
    const files = [...secretsOf(service).values()].map(secret => readFileSync(join(secrets, secret), 'utf8'))
    const texts = [...Object.values(service.environment ?? {}), ...files].join(' ')
    const asked = names.filter(other => new RegExp(`\\b${other}(?=[:/])`).test(texts) && other !== name)
    expect(asked.length).toBeGreaterThan(0)
    for (const other of [...asked, ...Object.keys(service.depends_on ?? {})]) {
      const shared = networksOf(service).filter(network => networksOf(services[other]!).includes(network))
      expect([other, shared.length > 0]).toEqual([other, true])
    }
  })
})

test('every mounted file exists, and every volume and secret is declared', () => {
  for (const { volumes = [], secrets = [] } of Object.values(services)) {
    for (const volume of volumes) {
      const [source, , mode] = volume.split(':') as [string, string, string?]
      if (source.startsWith('./')) expect([source, existsSync(join(deployFolder, source)), mode]).toEqual([source, true, 'ro'])
      else expect(Object.keys(compose.volumes)).toContain(source)
    }
    for (const secret of secrets) expect(Object.keys(compose.secrets)).toContain(typeof secret === 'string' ? secret : secret.source)
  }
})

test('the front reaches no store and no Kafka, and nothing else is published', () => {
  const published = names.filter(name => services[name]!.ports !== undefined)
  expect(published).toEqual(['nginx', 'grafana'])
  expect(services['nginx']!.ports).toEqual(['443:8443', '8883:8883'])
  expect(services['grafana']!.ports).toEqual(['127.0.0.1:3000:3000'])
  for (const [name, { internal }] of Object.entries(compose.networks)) expect([name, internal === true]).toEqual([name, name !== 'edge'])
  const within = (network: string): string[] => names.filter(name => networksOf(services[name]!).includes(network))
  expect(within('edge')).toEqual(['bridge', 'nginx', 'grafana'])
  for (const network of ['edge', 'front', 'monitoring', 'inside'])
    expect(within(network).filter(name => [...stores, 'kafka'].includes(name))).toEqual([])
  for (const store of ['cassandra', 'influxdb', 'mongodb'])
    expect(within(store)).toEqual([store, expect.stringMatching(/^writer-/), expect.stringMatching(/^reader-/)])
  expect(within('postgres')).toEqual(['postgres', 'api', 'writer-relational', 'reader-relational'])
})

test('nginx has the address that the roles trust, and names services at their fixed addresses', () => {
  const addresses = names.flatMap(name => addressOf(services[name]!) ?? [])
  expect(new Set(addresses).size).toBe(addresses.length)
  for (const { service } of roleServices) {
    const trusted = service.environment?.['SVC_HTTP_TRUSTED_PROXIES']
    if (networksOf(service).includes('front')) expect(trusted).toBe(addressOf(services['nginx']!))
  }
  const file = readFileSync(join(deployFolder, 'compose/nginx.conf'), 'utf8')
  const servers = [...file.matchAll(/^ {4}server ([\w-]+):(\d+);$/gm)].map(([, name, port]) => ({ name: name!, port }))
  const upstreams = servers.filter(({ port }) => port !== '1883')
  const overMqtt = servers.filter(({ port }) => port === '1883').map(({ name }) => name)
  expect(overMqtt).toEqual(names.filter(name => services[name]!.environment?.['SVC_MQTT_ENABLED'] === 'true'))
  expect(overMqtt).toEqual(['ingest-1', 'ingest-2'])
  expect(upstreams.map(({ name }) => name).sort()).toEqual(
    roleServices.flatMap(({ name, role }) => (/^(writer|bridge)/.test(role) ? [] : [name])).sort(),
  )
  for (const { name, port } of upstreams) {
    expect([name, port]).toEqual([name, name.startsWith('reader') ? '9084' : '8080'])
    const { extra_hosts: hosts = {}, depends_on: needed = {} } = services['nginx']!
    // nginx ends if it cannot look a name up.
    if (!(name in needed)) expect([name, hosts[name]]).toEqual([name, addressOf(services[name]!)])
  }
})

test('Prometheus scrapes every role', () => {
  const { scrape_configs: configs } = parse(readFileSync(join(deployFolder, 'compose/prometheus.yaml'), 'utf8')) as {
    scrape_configs: [{ static_configs: [{ targets: string[] }]; dns_sd_configs: [{ names: string[]; port: number }] }]
  }
  const [{ targets }] = configs[0].static_configs
  const [{ names: started, port }] = configs[0].dns_sd_configs
  const named = (isAlways: boolean) =>
    roleServices.flatMap(({ name }) => ((services[name]!.profiles === undefined) === isAlways ? [name] : []))
  // Of a stopped one the address is gone, which is an error for a fixed target alone.
  expect([...targets].sort()).toEqual(
    named(true)
      .map(name => `${name}:9080`)
      .sort(),
  )
  expect([...started].sort()).toEqual(named(false).sort())
  expect(port).toBe(9080)
  for (const { name } of roleServices) expect(networksOf(services[name]!)).toContain('inside')
})

describe('the dashboard of the platform', () => {
  interface Panel {
    readonly title: string
    readonly targets?: readonly { readonly expr: string }[]
  }
  const { panels } = JSON.parse(readFileSync(join(deployFolder, 'grafana/sluice-platform.json'), 'utf8')) as { panels: Panel[] }
  const known = knownMetrics()

  test.each(panels.flatMap(({ title, targets = [] }) => targets.map(({ expr }) => ({ title, expr }))))('$title: $expr', ({ expr }) => {
    const used = metricsIn(expr)
    expect(used.length).toBeGreaterThan(0)
    const labels = new Set(used.flatMap(name => known.get(name) ?? [`${name} is not a metric`]))
    for (const label of labelsIn(expr)) expect([...labels, 'instance', 'le']).toContain(label)
    expect([...labels].filter(label => label.endsWith('is not a metric'))).toEqual([])
  })

  test('an unknown metric or label is found', () => {
    expect(metricsIn('sum by (le) (rate(no_such_total{a="b",c!~"d"}[5m])) / sum(other) + time()')).toEqual(['no_such_total', 'other'])
    expect(labelsIn('sum by (le, x) (rate(no_such_total{a="b,e",c!~"d"}[5m]))')).toEqual(['le', 'x', 'a', 'c'])
  })
})

/** The labels of each metric, also under the names of the parts of histograms. */
function knownMetrics(): Map<string, readonly string[]> {
  const processRegistry = new Registry()
  collectDefaultMetrics({ register: processRegistry })
  const all = [
    ...metrics().map(({ metric }) => metric),
    ...(processRegistry.getMetricsAsArray() as unknown as { name: string; type: string; labelNames: readonly string[] }[]),
  ]
  return new Map(
    all.flatMap(({ name, type, labelNames }) =>
      (type === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']).map(part => [name + part, labelNames] as const),
    ),
  )
}

/** What is neither a function nor in braces, brackets or quotes. */
function metricsIn(expression: string): string[] {
  const bare = expression
    .replaceAll(/"[^"]*"/g, '')
    .replaceAll(/\{[^}]*\}|\[[^\]]*\]|\bby \([^)]*\)/g, ' ')
    .replaceAll(/\b(sum|max|min|avg|count)\b(?!_)/g, ' ')
  return [...bare.matchAll(/\b[a-z_][a-z0-9_]*\b(?!\s*\()/g)].map(([name]) => name)
}

function labelsIn(expression: string): string[] {
  const by = [...expression.matchAll(/\bby \(([^)]*)\)/g)].flatMap(([, list]) => list!.split(/,\s*/))
  const matched = [...expression.matchAll(/\{([^}]*)\}/g)].flatMap(([, inside]) =>
    [...inside!.replaceAll(/"[^"]*"/g, '').matchAll(/(\w+)\s*[=!]/g)].map(([, label]) => label!),
  )
  return [...by, ...matched]
}
