// The command `./sluice`: parses the command line and starts a role or a tool.

import { readFileSync } from 'node:fs'
import { Command, Option } from 'commander'
import type { ProvisionOptions } from './control-plane/provisioning/options.ts'
import { exitAfter, tellFailure } from './roles/exit.ts'
import { type Role, roleOfStore, roles, sources } from './roles/roles.ts'
import { configPathVariable, rolesOfStores, type StoreName, storeNamesText, storeOf } from './roles/stores/store.ts'

const { version, description } = JSON.parse(readFileSync(new URL('package.json', import.meta.url), 'utf8')) as Record<string, string>

const program: Command = new Command('./sluice')
  .description(description!)
  .version(version!)
  .showSuggestionAfterError()
  .showHelpAfterError('(./sluice --help shows the commands, ./sluice <command> --help its options)')

const data = new Option('--data <folder>', 'folder for all data (default: ./data)')
const file = new Option('--config <file>', 'TOML file with options (default: none)')

program
  .command('up')
  .summary('everything in one process, with an embedded log and database')
  .description('Starts the whole platform in one process on one port, with all its data in one folder.')
  .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
  .option('--port <number>', 'port to listen on; 0 picks a free one (default: 8080)')
  .addOption(data)
  .addOption(file)
  .option('--accept-new-log <id>', 'accept the recreated log with this id')
  .option('--demo', 'let administrators start simulated devices and cause failures in the console')
  .addHelpText(
    'after',
    '\nExamples:\n  ./sluice up\n  ./sluice up --port 0 --data /var/lib/sluice\n  SVC_ADMIN_EMAIL=me@example.com SVC_ADMIN_PASSWORD=… ./sluice up\n',
  )
  .action(async (flags: { host?: string; port?: string; data?: string; config?: string; acceptNewLog?: string; demo?: boolean }) => {
    const { loadUpOptions, upOptions } = await import('./up-options.ts')
    const overrides = {
      http: { host: flags.host, port: flags.port },
      data: { folder: flags.data },
      demo: flags.demo,
      log: { acceptNew: flags.acceptNewLog },
    }
    const options = loadUpOptions(await sources(upOptions, flags.config, overrides))
    const { up } = await import('./up.ts')
    await exitAfter(options.logging, () => up(options, version!))
  })

interface ListenFlags {
  host?: string
  port?: string
  config?: string
}

/** The command of a role with a listener. */
function listeningRole(name: string, summary: string, port = 8080): Command {
  return program
    .command(name)
    .summary(summary)
    .option('--host <address>', 'address to listen on (default: 127.0.0.1)')
    .option('--port <number>', `port to listen on; 0 picks a free one (default: ${port})`)
    .addOption(file)
}

listeningRole('api', 'the control plane, on a PostgreSQL server')
  .option('--services <names>', 'services to run, separated by commas: core, provision, bootstrap, certs (default: all)')
  .description('Starts the control plane: users, tokens, things, channels, connections, and the access checks of ingest and readers.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_DATABASE_URL=postgres://sluice:…@db/sluice SVC_MASTER_KEY_FILE=/run/secrets/master-key ./sluice api\n  ./sluice api --config api.toml --host 0.0.0.0\n  ./sluice api --services provision,bootstrap\n  ./sluice config sample api\n',
  )
  .action(async ({ config: path, services, ...http }: ListenFlags & { services?: string }) => {
    const { apiOptions, loadApiOptions } = await import('./roles/api/options.ts')
    const options = loadApiOptions(await sources(apiOptions, path, { http: { ...http }, services }))
    const { api } = await import('./roles/api/api.ts')
    await exitAfter(options.logging, () => api(options, version!))
  })

listeningRole('ingest', 'accepts messages from devices and appends them to the log')
  .description(
    'Starts ingest: accepts messages from devices over HTTP, checks with the control plane who may publish, and appends them to the log.',
  )
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_LOG_BROKERS=kafka:9092 SVC_CONTROL_URL=http://api:9080 SVC_CONTROL_TOKEN_FILE=/run/secrets/control-token ./sluice ingest\n  ./sluice ingest --config ingest.toml --host 0.0.0.0 --port 8081\n  ./sluice config sample ingest\n',
  )
  .action(async ({ config: path, ...http }: ListenFlags) => {
    const { ingestRoleOptions, loadIngestOptions } = await import('./roles/ingest/options.ts')
    const options = loadIngestOptions(await sources(ingestRoleOptions, path, { http: { ...http } }))
    const { ingest } = await import('./roles/ingest/ingest.ts')
    const { openMessagesLog } = await import('./pipeline/kafka/confluent/encoding.ts')
    await exitAfter(options.logging, () => ingest(options, version!, openMessagesLog))
  })

listeningRole('bridge', 'takes the messages of an MQTT broker into the log', 9088)
  .description(
    'Starts a bridge: takes the messages of an MQTT broker that devices use already, and acknowledges each to it when the log has it.',
  )
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_LOG_BROKERS=kafka:9092 SVC_BROKER_URL=mqtt://broker:1883 SVC_BROKER_TOPICS=factory/# ./sluice bridge\n  ./sluice bridge --config bridge.toml\n  ./sluice config sample bridge\n',
  )
  .action(async ({ config: path, ...http }: ListenFlags) => {
    const { bridgeOptions, loadBridgeOptions } = await import('./roles/bridge/options.ts')
    const options = loadBridgeOptions(await sources(bridgeOptions, path, { http: { ...http } }))
    const { bridge } = await import('./roles/bridge/bridge.ts')
    await exitAfter(options.logging, () => bridge(options, version!))
  })

/** The store named on the command line; the error lists the stores. */
function storeNamed(name: string | undefined): StoreName {
  const store = name === undefined ? undefined : storeOf(name)
  if (store !== undefined) return store
  const fault = name === undefined ? 'the store is missing' : `unknown store ${JSON.stringify(name)}`
  return program.error(`${fault}: the stores are ${storeNamesText}`)
}

listeningRole('writer', 'stores messages from the log', 9082)
  .argument('[store]', storeNamesText)
  .option('--accept-new-log <id>', 'continue with the recreated log with this id, or with a store that lacks messages already read from it')
  .option('--skip-batch', 'skip batches in record formats older than Kafka 0.11, and count them as lost')
  .description('Starts a writer: a pool of workers that read messages from Kafka and store each exactly once.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_LOG_BROKERS=kafka:9092 SVC_RELATIONAL_URL=postgres://sluice:…@db/sluice ./sluice writer relational\n  SVC_RELATIONAL_WRITER_CONFIG_PATH=writer.toml ./sluice writer relational\n  SVC_LOG_BROKERS=kafka:9092 SVC_WIDECOLUMN_URL=cassandra://node-1,node-2/sluice?dc=datacenter1 ./sluice writer widecolumn\n  SVC_TIMESERIES_URL="http://influx:8086/?org=acme&bucket=sluice" SVC_TIMESERIES_TOKEN_FILE=/run/secrets/influx ./sluice writer timeseries\n  SVC_DOCUMENT_URL=mongodb://mongo/sluice ./sluice writer document\n  ./sluice config sample writer relational\n',
  )
  .action(
    async (
      name: string | undefined,
      { config: path, acceptNewLog, skipBatch, ...http }: ListenFlags & { acceptNewLog?: string; skipBatch?: boolean },
    ) => {
      const store = storeNamed(name)
      const { loadWriterOptions, writerOptionsOf } = await import('./roles/writer/options.ts')
      const { storeOptions } = await import('./roles/stores/options.ts')
      const kind = await storeOptions(store)
      const options = loadWriterOptions(
        kind,
        await sources(
          writerOptionsOf(kind),
          path,
          { http: { ...http }, log: { acceptNew: acceptNewLog, skipBatch } },
          configPathVariable('writer', store),
        ),
      )
      const { writer } = await import('./roles/writer/writer.ts')
      await exitAfter(options.logging, () => writer(store, options, version!))
    },
  )

listeningRole('reader', 'serves the messages of a store over HTTP', 9084)
  .argument('[store]', storeNamesText)
  .description('Starts a reader: serves the messages of a store over HTTP, and checks with the control plane who may read them.')
  .addHelpText(
    'after',
    '\nExamples:\n  SVC_CONTROL_URL=http://api:9080 SVC_CONTROL_TOKEN_FILE=/run/secrets/control-token SVC_RELATIONAL_URL=postgres://reader:…@db/sluice ./sluice reader relational\n  SVC_RELATIONAL_READER_CONFIG_PATH=reader.toml ./sluice reader relational\n  SVC_WIDECOLUMN_URL=cassandra://node-1,node-2/sluice?dc=datacenter1 ./sluice reader widecolumn --host 0.0.0.0 --port 9086\n  SVC_TIMESERIES_URL="http://influx:8086/?org=acme&bucket=sluice" SVC_TIMESERIES_TOKEN_FILE=/run/secrets/influx ./sluice reader timeseries\n  SVC_DOCUMENT_URL=mongodb://mongo/sluice ./sluice reader document\n  ./sluice config sample reader relational\n',
  )
  .action(async (name: string | undefined, { config: path, ...http }: ListenFlags) => {
    const store = storeNamed(name)
    const { loadReaderOptions, readerOptionsOf } = await import('./roles/reader/options.ts')
    const { storeOptions } = await import('./roles/stores/options.ts')
    const known = await storeOptions(store)
    const options = loadReaderOptions(
      known,
      await sources(readerOptionsOf(known), path, { http: { ...http } }, configPathVariable('reader', store)),
    )
    const { reader } = await import('./roles/reader/reader.ts')
    const { storeKind } = await import('./roles/stores/index.ts')
    const kind = await storeKind(store)
    await exitAfter(options.logging, () => reader(kind, options, version!))
  })

const roleNames = Object.keys(roles).join(', ')
const storeArgument = ['[store]', `store of a writer or reader: ${storeNamesText}`] as const
const config = program
  .command('config')
  .summary('check or print the options of a role, or print a sample file')
  .description('Checks or prints the options of a role.')
const role = '<role>'

config
  .command('check')
  .argument(role, roleNames)
  .argument(...storeArgument)
  .addOption(file)
  .description('Checks the options: prints warnings and ok, or all faults.')
  .addHelpText(
    'after',
    '\nExamples:\n  ./sluice config check up --config sluice.toml\n  SVC_RELATIONAL_WRITER_CONFIG_PATH=writer.toml ./sluice config check writer relational\n  SVC_PROVISION_CONFIG_PATH=layout.toml ./sluice config check api\n',
  )
  .action(async (name: string, store: string | undefined, flags: { config?: string }) => {
    const { schema, load, fileVariable } = await roleOf(name, store)
    const { provisioning } = load(await sources(schema, flags.config, {}, fileVariable)) as { provisioning?: ProvisionOptions }
    for (const warning of provisioning?.warnings ?? []) console.error(`warning: ${warning}`)
    console.log('ok')
  })

config
  .command('print')
  .argument(role, roleNames)
  .argument(...storeArgument)
  .addOption(file)
  .description('Prints the options in effect; secrets are masked.')
  .addHelpText('after', '\nExample:\n  SVC_HTTP_PORT=9000 ./sluice config print up\n')
  .action(async (name: string, store: string | undefined, flags: { config?: string }) => {
    const { printOptions } = await import('./config/options/options.ts')
    const { schema, load, fileVariable } = await roleOf(name, store)
    console.log(printOptions(schema, load(await sources(schema, flags.config, {}, fileVariable))))
  })

config
  .command('sample')
  .argument(role, roleNames)
  .argument(...storeArgument)
  .description('Prints a commented TOML file with every option at its default.')
  .addHelpText('after', '\nExample:\n  ./sluice config sample up > sluice.toml\n')
  .action(async (name: string, store: string | undefined) => {
    const { sampleFile } = await import('./config/options/options.ts')
    console.log(sampleFile((await roleOf(name, store)).schema))
  })

/** Each tool adds its subcommands to a command, and is loaded only when it is called. */
const tools = {
  senml: { summary: 'resolve, validate and convert SenML packs', load: () => import('./bin/senml.ts') },
  json: { summary: 'show how JSON documents are stored', load: () => import('./bin/json.ts') },
  send: { summary: 'write messages into the topic of a writer', load: () => import('./roles/tools/send/send.ts') },
  tail: { summary: 'follow the messages of a topic', load: () => import('./roles/tools/tail.ts') },
  dlq: { summary: 'list, show, replay or drop dead letters', load: () => import('./roles/tools/dlq.ts') },
  verify: { summary: 'compare a store with its log, message by message', load: () => import('./roles/tools/verify.ts') },
  trace: { summary: 'show what happened to one message', load: () => import('./roles/tools/trace.ts') },
  erase: { summary: 'delete messages from a store for good', load: () => import('./roles/tools/erase.ts') },
  bench: {
    summary: 'send a load that can be repeated, and check what a store has of it',
    load: () => import('./roles/tools/bench/bench.ts'),
  },
  doctor: { summary: 'check what a role needs to start, and say what to do', load: () => import('./roles/tools/doctor.ts') },
  logs: { summary: 'list the logs of a store, and free their numbers', load: () => import('./roles/tools/logs.ts') },
  copy: { summary: 'copy the messages of a store to another one', load: () => import('./roles/tools/copy/copy.ts') },
  provision: { summary: 'provision a fleet of devices on a running platform', load: () => import('./roles/tools/provision/provision.ts') },
  policies: { summary: 'add missing automatic policies', load: () => import('./roles/tools/policies.ts') },
  secrets: { summary: 'generate secrets and rotate the master key', load: () => import('./roles/tools/secrets.ts') },
}
for (const [name, { summary, load }] of Object.entries(tools)) {
  const command = program.command(name).summary(summary)
  if (process.argv.includes(name)) (await load()).addCommands(command, sources)
}

/** @param store of a writer or reader, by either of its names */
async function roleOf(name: string, store: string | undefined): Promise<Role> {
  const given = store === undefined ? name : `${name} ${store}`
  const kind = store === undefined ? undefined : storeOf(store)
  const storeRole = rolesOfStores.find(role => role === name)
  const key = storeRole !== undefined && kind !== undefined ? roleOfStore(storeRole, kind) : given
  const role = Object.hasOwn(roles, key) ? roles[key] : undefined
  return role === undefined ? program.error(`unknown role ${JSON.stringify(given)}: the roles are ${roleNames}`) : role()
}

try {
  await program.parseAsync()
} catch (error) {
  tellFailure(error)
  // Exits explicitly: a damaged embedded database leaves timers that cannot be stopped and would keep the process alive.
  process.exit(1)
}
