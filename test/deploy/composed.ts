// The services of deploy/compose.yaml as processes of this machine: their commands, variables and files, in their order, each at an address of its own
// on loopback, with the tests' servers as Kafka and the stores, and nginx in front.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { onTestFinished } from 'vitest'
import { type Spawned, spawnRole } from '../roles/processes.ts'
import { postgresPrograms } from '../servers/install/postgres.ts'
import { streamModule } from '../servers/install/proxies.ts'
import { keep } from '../servers/process/keeper.ts'
import { temporaryFolder } from '../temporary-folder.ts'
import { root } from '../tidy/files.ts'
import { addressOf, deployFolder, makeSecrets, networksOf, readCompose, roleOf, type Service, secretsOf } from './compose.ts'

/** Addresses of the tests' servers, `127.0.0.1:<port>`, in place of the services of these names. */
export interface Servers {
  readonly kafka: string
  readonly postgres: string
  readonly cassandra?: string
  readonly influxdb?: { readonly address: string; readonly token: string }
  readonly mongodb?: string
}

export interface Ended {
  readonly code: number | string
  readonly printed: string
}

export interface Composed {
  /** Of nginx: `https://127.…:8443`. Its certificate is trusted by this process. */
  readonly url: string
  readonly port: number
  /** The folder of the secrets, in which hosts are replaced. */
  readonly secrets: string
  /** The processes by service. */
  readonly running: ReadonlyMap<string, Spawned>
  /** Starts the service again, and resolves when it is healthy. */
  start(name: string): Promise<void>
  /** `docker compose exec`: runs these words of ./sluice with what the service has. */
  exec(name: string, words: readonly string[]): Promise<Ended>
  /** `docker compose run`: runs the service's own command, which is a program of Node. */
  run(name: string): Promise<Ended>
  /** Of the service's own metrics: the sum over all labels. */
  metric(name: string, metric: string): Promise<number>
}

/** Starts what `docker compose up` with these profiles does, but Prometheus and Grafana. Call it inside a test, which ends all of it. */
export async function compose(servers: Servers, profiles: readonly string[] = []): Promise<Composed> {
  const subnet = `127.${16 + (process.pid % 200)}.${1 + Math.floor(Math.random() * 250)}`
  const { services } = readCompose({ SLUICE_USER: '65532:65532', SLUICE_SUBNET: subnet })
  const folder = temporaryFolder()
  const made = await makeSecrets(folder, [`${subnet}.2`])
  const names = Object.keys(services)
  const addressIn = (name: string): string => addressOf(services[name]!) ?? `${subnet}.${100 + names.indexOf(name)}`
  const mapped = (text: string): string => hostsMapped(text, servers, services, addressIn)

  const secrets = join(folder, 'secrets')
  mkdirSync(secrets)
  for (const file of readdirSync(made.path)) {
    const text = file === 'influxdb-token' ? servers.influxdb?.token : readFileSync(join(made.path, file), 'utf8')
    writeFileSync(join(secrets, file), mapped(text ?? ''), { mode: 0o600 })
  }
  await initializePostgres(servers.postgres, services['postgres']!, secrets)
  const front = readFileSync(join(secrets, 'front.pem'), 'utf8')
  setDefaultCACertificates([...getCACertificates('default'), front])

  function environmentOf(name: string): Record<string, string> {
    const service = services[name]!
    const paths = secretsOf(service)
    const own = Object.entries(service.environment ?? {}).map(([variable, value]) => {
      const secret = paths.get(value)
      return [variable, secret === undefined ? mapped(value) : join(secrets, secret)] as const
    })
    return { ...environmentOfImage(addressIn(name)), ...Object.fromEntries(own) }
  }

  async function run(words: readonly string[], name: string): Promise<Ended> {
    const { ended, printed } = spawnRole(words, environmentOf(name))
    return { code: await ended, printed: printed() }
  }

  const running = new Map<string, Spawned>()
  const healthy = new Map<string, Promise<void>>()
  const start = async (name: string): Promise<void> => {
    const service = services[name]!
    await Promise.all(Object.keys(service.depends_on ?? {}).map(whenHealthy))
    if (name === 'nginx') return startNginx(service, addressIn(name), join(folder, 'nginx'), secrets, mapped)
    const role = roleOf(service)
    if (role === undefined) return
    const spawned = spawnRole([join(root, 'main.ts'), ...service.command!], environmentOf(name))
    running.set(name, spawned)
    await untilReady(name, spawned, `http://${addressIn(name)}:9080/readyz`)
  }
  const whenHealthy = (name: string): Promise<void> => {
    const known = healthy.get(name) ?? start(name)
    healthy.set(name, known)
    return known
  }
  await Promise.all(names.filter(name => services[name]!.profiles?.some(profile => profiles.includes(profile)) ?? true).map(whenHealthy))

  const url = `https://${addressIn('nginx')}:8443`
  return {
    url,
    port: 8443,
    secrets,
    running,
    start,
    exec: (name, words) => run([join(root, 'main.ts'), ...words], name),
    run(name) {
      const [, program, ...flags] = [...services[name]!.entrypoint!, ...services[name]!.command!]
      return run([join(root, program!), ...flags.map(mapped)], name)
    },
    async metric(name, metric) {
      const text = await (await fetch(`http://${addressIn(name)}:9080/metrics`)).text()
      const lines = text.split('\n').filter(line => line.startsWith(`${metric}{`) || line.startsWith(`${metric} `))
      return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
    },
  }
}

/** FerretDB has no users, so the names and passwords of MongoDB's go. */
function hostsMapped(
  text: string,
  { kafka, postgres, cassandra = '', influxdb, mongodb = '' }: Servers,
  services: Readonly<Record<string, Service>>,
  addressIn: (name: string) => string,
): string {
  const storesMapped = text
    .replaceAll('kafka:9092', kafka)
    .replaceAll('@postgres:5432', `@${postgres}`)
    .replaceAll('//cassandra/', `//${cassandra}/`)
    .replaceAll('influxdb:8086', influxdb?.address ?? '')
    .replaceAll(/[^/]*@mongodb:27017/g, mongodb)
  return Object.entries(services)
    .filter(([, service]) => networksOf(service).includes('front'))
    .reduce((current, [name]) => current.replaceAll(new RegExp(`\\b${name}(?=:\\d)`, 'g'), addressIn(name)), storesMapped)
}

/** What deploy/Dockerfile sets, but the image's own folder for compiled code. In a container all addresses are one. */
function environmentOfImage(address: string): Record<string, string> {
  const lines = readFileSync(join(deployFolder, 'Dockerfile'), 'utf8').matchAll(/^ENV (?!NODE_COMPILE_CACHE)(.*)$/gm)
  const pairs = [...lines].flatMap(([, line]) => line!.split(' '))
  return Object.fromEntries(pairs.map(pair => pair.replace('0.0.0.0', address).split('=') as [string, string]))
}

/** As the image does at its first start: with-secrets.sh, and then what is mounted into docker-entrypoint-initdb.d. */
async function initializePostgres(address: string, service: Service, secrets: string): Promise<void> {
  const [host, port] = address.split(':')
  const given = [...secretsOf(service)].map(
    ([path, secret]) => [path.replace('/run/secrets/', ''), readFileSync(join(secrets, secret), 'utf8').trim()] as const,
  )
  const [script] = service.volumes!.flatMap(volume => /^(.*):\/docker-entrypoint-initdb.d\//.exec(volume)?.[1] ?? [])
  const PATH = `${postgresPrograms()}:${process.env['PATH']}`
  const environment = { PATH, PGHOST: host, PGPORT: port, POSTGRES_USER: 'postgres', ...Object.fromEntries(given) }
  const child = spawn('sh', [join(deployFolder, script!)], { env: environment, stdio: ['ignore', 'ignore', 'pipe'] })
  let printed = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    printed += text
  })
  const [code] = (await once(child, 'close')) as [number]
  if (code !== 0) throw new Error(`${script} ended with ${code}:\n${printed}`)
}

/** With the very file, at its address, from which it also asks the roles: they trust no other. */
async function startNginx(
  { entrypoint, command }: Service,
  address: string,
  folder: string,
  secrets: string,
  mapped: (text: string) => string,
): Promise<void> {
  mkdirSync(folder)
  const file = join(folder, 'nginx.conf')
  const written = mapped(readFileSync(join(deployFolder, 'compose/nginx.conf'), 'utf8'))
    .replaceAll(' /tmp/', ` ${folder}/`)
    .replaceAll('/run/secrets/', `${secrets}/`)
    .replace('/etc/nginx;', `${join(deployFolder, 'proxies')};`)
    .replaceAll(/listen (8443|8883)/g, `proxy_bind ${address};\n    listen ${address}:$1`)
    // Of Debian a module, and a part of the image.
    .replace('\ndaemon off;', `\nload_module ${streamModule};\ndaemon off;`)
  writeFileSync(file, written)
  const words = [...entrypoint!, ...command!].map(word => (word === '/etc/nginx/nginx.conf' ? file : word))
  const isRoot = process.getuid?.() === 0
  const full = [`/usr/sbin/${words[0]}`, ...words.slice(1), ...(isRoot ? ['-g', 'user root;'] : [])]
  const server = await keep(full, { folder, isReady: line => line.includes('start worker process '), lastSignal: 'TERM' })
  onTestFinished(() => server.end('TERM'))
}

async function untilReady(name: string, { ended, printed }: Spawned, url: string): Promise<void> {
  const end = ended.then(code => `ended with ${code}` as const)
  for (;;) {
    const answer = await Promise.race([end, fetch(url).catch(() => undefined)])
    if (typeof answer === 'string') throw new Error(`${name} ${answer} before it was healthy:\n${printed()}`)
    if (answer?.ok === true) return
    await wait(50)
  }
}
