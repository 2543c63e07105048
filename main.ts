// The command `sluice`: picks a role, reads its options, nothing else.

import { readFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import { stopWithLauncher } from './bin/launcher.ts'
import type { ProvisionOptions } from './control-plane/provisioning/options.ts'
import { exitAfter, tellFailure } from './roles/exit.ts'
import { type Role, roleOfStore, roles, sources } from './roles/roles.ts'
import { configPathVariable, rolesOfStores, type StoreName, storeNamesText, storeOf } from './roles/stores/store.ts'

stopWithLauncher()

const { version, description } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as Record<string, string>

const program: Command = new Command('sluice')
  .description(description!)
  .version(version!)
  .showSuggestionAfterError()
  .showHelpAfterError('(sluice --help shows the commands, sluice <command> --help its options)')

const data = new Option('--data <folder>', 'where everything is kept (default: ./data)')
const file = new Option('--config <file>', 'options from a TOML file (default: none)')

program
  .command('up')
  .summary('everything in one process, on embedded defaults')
  .description('Starts the whole platform in one process on one port, with everything it keeps in one folder.')
  .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
  .option('--port <number>', 'port to listen on; 0 picks one (default: 8080)')
  .addOption(data)
  .addOption(file)
  .option('--accept-new-log', 'go on with a log that was made anew, once')
  .addHelpText(
    'after',
    '\nExamples:\n  sluice up\n  sluice up --port 0 --data /var/lib/sluice\n  SVC_ADMIN_EMAIL=me@example.com SVC_ADMIN_PASSWORD=… sluice up\n',
  )
  .action(async (flags: { host?: string; port?: string; data?: string; config?: string; acceptNewLog?: boolean }) => {
    const { loadUpOptions } = await import('./up-options.ts')
    const overrides = { http: { host: flags.host, port: flags.port }, data: { folder: flags.data }, log: { acceptNew: flags.acceptNewLog } }
    const options = loadUpOptions(await sources(flags.config, overrides))
    const { up } = await import('./up.ts')
    await exitAfter(options.logging, () => up(options, version!))
  })

interface ListenFlags {
  host?: string
  port?: string
  config?: string
}

/** The command of a role that listens. */
function listeningRole(name: string, summary: string, port = 8080): Command {
  return program
    .command(name)
    .summary(summary)
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <number>', `port to listen on; 0 picks one (default: ${port})`)
    .addOption(file)
}

listeningRole('api', 'the control plane, on a PostgreSQL server')
  .option('--services <names>', 'whose routes it serves, divided by commas: core, provision, bootstrap, certificates (default: all)')
  .description('Starts the control plane: users, tokens, things, channels, connections, and what ingest asks: who may publish.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key sluice api\n  sluice api --config api.toml --host 0.0.0.0\n  sluice api --services provision,bootstrap\n  sluice config sample api\n',
  )
  .action(async ({ config: path, services, ...http }: ListenFlags & { services?: string }) => {
    const { loadApiOptions } = await import('./roles/api-options.ts')
    const options = loadApiOptions(await sources(path, { http: { ...http }, services }))
    const { api } = await import('./roles/api.ts')
    await exitAfter(options.logging, () => api(options, version!))
  })

listeningRole('ingest', 'takes messages from devices into the log')
  .description('Starts ingest: takes messages from devices over HTTP into the log, and asks the control plane who may publish.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_LOG_BROKERS=kafka:9092 SVC_CONTROL_URL=http://api:9080 SVC_CONTROL_TOKEN_FILE=/run/secrets/control-token sluice ingest\n  sluice ingest --config ingest.toml --host 0.0.0.0 --port 8081\n  sluice config sample ingest\n',
  )
  .action(async ({ config: path, ...http }: ListenFlags) => {
    const { loadIngestOptions } = await import('./roles/ingest-options.ts')
    const options = loadIngestOptions(await sources(path, { http: { ...http } }))
    const { ingest } = await import('./roles/ingest.ts')
    const { openMessagesLog } = await import('./pipeline/kafka/confluent/index.ts')
    await exitAfter(options.logging, () => ingest(options, version!, openMessagesLog))
  })

/** The store that a command was given; without one the sentence says which there are. */
function storeNamed(name: string | undefined): StoreName {
  const store = name === undefined ? undefined : storeOf(name)
  if (store !== undefined) return store
  const fault = name === undefined ? 'a store is missing' : `there is no store ${JSON.stringify(name)}`
  return program.error(`${fault}: the stores are ${storeNamesText}`)
}

listeningRole('writer', 'takes messages from the log into a store', 9082)
  .argument('[store]', storeNamesText)
  .option('--accept-new-log', 'go on with a log that was made anew, or with a store that knows nothing of what was read, once')
  .description('Starts a writer: a pool of workers that take messages from Kafka and store them, each once.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://sluice:…@db/sluice sluice writer relational\n  SVC_RELATIONAL_WRITER_CONFIG_PATH=writer.toml sluice writer relational\n  SVC_LOG_BROKERS=kafka:9092 SVC_WIDECOLUMN_URL=cassandra://node-1,node-2/sluice?dc=datacenter1 sluice writer widecolumn\n  SVC_TIMESERIES_URL="http://influx:8086/?org=acme&bucket=sluice" SVC_TIMESERIES_TOKEN_FILE=/run/secrets/influx sluice writer timeseries\n  SVC_DOCUMENT_URL=mongodb://mongo/sluice sluice writer document\n  sluice config sample writer relational\n',
  )
  .action(async (name: string | undefined, { config: path, acceptNewLog, ...http }: ListenFlags & { acceptNewLog?: boolean }) => {
    const store = storeNamed(name)
    const { loadWriterOptions } = await import('./roles/writer-options.ts')
    const { storeKind } = await import('./roles/stores/index.ts')
    const options = loadWriterOptions(
      await storeKind(store),
      await sources(path, { http: { ...http }, log: { acceptNew: acceptNewLog } }, configPathVariable('writer', store)),
    )
    const { writer } = await import('./roles/writer.ts')
    await exitAfter(options.logging, () => writer(store, options, version!))
  })

listeningRole('reader', 'gives back over HTTP what a store holds', 9084)
  .argument('[store]', storeNamesText)
  .description('Starts a reader: gives back over HTTP what a store holds, and asks the control plane who may read it.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_CONTROL_URL=http://api:9080 SVC_CONTROL_TOKEN_FILE=/run/secrets/control-token SVC_RELATIONAL_URL=postgres://reader:…@db/sluice sluice reader relational\n  SVC_RELATIONAL_READER_CONFIG_PATH=reader.toml sluice reader relational\n  SVC_WIDECOLUMN_URL=cassandra://node-1,node-2/sluice?dc=datacenter1 sluice reader widecolumn --host 0.0.0.0 --port 9086\n  SVC_TIMESERIES_URL="http://influx:8086/?org=acme&bucket=sluice" SVC_TIMESERIES_TOKEN_FILE=/run/secrets/influx sluice reader timeseries\n  SVC_DOCUMENT_URL=mongodb://mongo/sluice sluice reader document\n  sluice config sample reader relational\n',
  )
  .action(async (name: string | undefined, { config: path, ...http }: ListenFlags) => {
    const store = storeNamed(name)
    const { loadReaderOptions } = await import('./roles/reader-options.ts')
    const { storeKind } = await import('./roles/stores/index.ts')
    const kind = await storeKind(store)
    const options = loadReaderOptions(kind, await sources(path, { http: { ...http } }, configPathVariable('reader', store)))
    const { reader } = await import('./roles/reader.ts')
    await exitAfter(options.logging, () => reader(kind, options, version!))
  })

const roleNames = Object.keys(roles).join(', ')
const ofStore = ['[store]', `of a writer or a reader: ${storeNamesText}`] as const
const config = program
  .command('config')
  .summary('check, print or sample the options of a role')
  .description('Works on the options of a role.')
const role = '<role>'

config
  .command('check')
  .argument(role, roleNames)
  .argument(...ofStore)
  .addOption(file)
  .description('Says ok, after what a start would warn of, or every fault of the options at once.')
  .addHelpText(
    'after',
    '\nExample:\n  sluice config check up --config sluice.toml\n  ./sluice config check up --config sluice.toml\n  SVC_RELATIONAL_WRITER_CONFIG_PATH=writer.toml sluice config check writer relational\n  SVC_PROVISION_CONFIG_PATH=layout.toml sluice config check api\n',
  )
  .action(async (name: string, store: string | undefined, flags: { config?: string }) => {
    const { load, fileVariable } = await roleOf(name, store)
    const { provisioning } = load(await sources(flags.config, {}, fileVariable)) as { provisioning?: ProvisionOptions }
    for (const warning of provisioning?.warnings ?? []) console.error(`warning: ${warning}`)
    console.log('ok')
  })

config
  .command('print')
  .argument(role, roleNames)
  .argument(...ofStore)
  .addOption(file)
  .description('Prints the options in force; secrets are masked.')
  .addHelpText('after', '\nExample:\n  SVC_HTTP_PORT=9000 sluice config print up\n')
  .action(async (name: string, store: string | undefined, flags: { config?: string }) => {
    const { printOptions } = await import('./config/options.ts')
    const { schema, load, fileVariable } = await roleOf(name, store)
    console.log(printOptions(schema, load(await sources(flags.config, {}, fileVariable))))
  })

config
  .command('sample')
  .argument(role, roleNames)
  .argument(...ofStore)
  .description('Prints a commented TOML file with every option at its default.')
  .addHelpText('after', '\nExample:\n  sluice config sample up > sluice.toml\n')
  .action(async (name: string, store: string | undefined) => {
    const { sampleFile } = await import('./config/options.ts')
    console.log(sampleFile((await roleOf(name, store)).schema))
  })

/** Each adds its commands to the one it is given, and is loaded where that is asked for. */
const tools = {
  senml: { summary: 'resolve, validate and convert SenML packs', load: () => import('./bin/senml.ts') },
  json: { summary: 'see what becomes of JSON documents', load: () => import('./bin/json.ts') },
  dlq: { summary: 'look at dead letters, replay or drop them', load: () => import('./roles/tools/dlq.ts') },
  verify: { summary: 'compare a store with its log, message by message', load: () => import('./roles/tools/verify.ts') },
  trace: { summary: 'tell what has become of one message', load: () => import('./roles/tools/trace.ts') },
  provision: { summary: 'map a fleet of devices on a running platform', load: () => import('./roles/tools/provision.ts') },
  policies: { summary: 'add automatic policies that are missing', load: () => import('./roles/tools/policies.ts') },
  secrets: { summary: 'make secrets, and replace the master key', load: () => import('./roles/tools/secrets.ts') },
}
for (const [name, { summary, load }] of Object.entries(tools)) {
  const command = program.command(name).summary(summary)
  if (process.argv.includes(name)) (await load()).addCommands(command, sources)
}

/** @param store of a writer or a reader, by either of its names */
async function roleOf(name: string, store: string | undefined): Promise<Role> {
  const given = store === undefined ? name : `${name} ${store}`
  const kind = store === undefined ? undefined : storeOf(store)
  const ofStore = rolesOfStores.find(role => role === name)
  const key = ofStore !== undefined && kind !== undefined ? roleOfStore(ofStore, kind) : given
  const role = Object.hasOwn(roles, key) ? roles[key] : undefined
  return role === undefined ? program.error(`there is no role ${JSON.stringify(given)}: the roles are ${roleNames}`) : role()
}

try {
  await program.parseAsync()
} catch (error) {
  tellFailure(error)
  // Not left to the event loop: a damaged embedded database leaves timers behind that nothing can stop.
  process.exit(1)
}
