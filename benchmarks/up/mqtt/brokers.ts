// The brokers beside Sluice: Mosquitto from Debian's package, and HiveMQ CE from Maven's central repository.

import { existsSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { missingService } from '../../../test/servers/install/apt.ts'
import { cachePath, makeOnce } from '../../../test/servers/install/cache.ts'
import { missingJava, runMaven } from '../../../test/servers/install/java.ts'
import { freePort } from '../../../test/servers/process/free-port.ts'
import { type Kept, keep } from '../../../test/servers/process/keeper.ts'

export interface Broker {
  readonly name: string
  readonly pid: number
  readonly port: number
  readonly keys: readonly string[]
  readonly topic: string
  /** Another broker, which keeps in files what sessions that are away did not hear. */
  readonly isSaving: boolean
  stop(): Promise<unknown>
}

const mosquitto = '/usr/sbin/mosquitto'
const hivemqVersion = '2025.5'
const hivemq = cachePath('hivemq', hivemqVersion)
/** Those of HiveMQ's run.sh. */
const openModules = [
  ...['java.base/java.lang', 'java.base/java.nio', 'java.base/sun.nio.ch', 'jdk.management/com.sun.management.internal'].map(
    name => `--add-opens=${name}=ALL-UNNAMED`,
  ),
  '--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED',
]

/** Starts those that can be installed, and prints which cannot. @param folder each gets one in it */
export async function startOthers(folder: string): Promise<Broker[]> {
  const noMosquitto = missingService('mosquitto', ['mosquitto'], [mosquitto])
  const noHivemq = missingJava(!existsSync(hivemq))
  for (const reason of [noMosquitto, noHivemq]) if (reason !== undefined) console.log(`${reason}; the others are measured without it`)
  return [
    ...(noMosquitto === undefined ? [await startMosquitto(folder, false), await startMosquitto(folder, true)] : []),
    ...(noHivemq === undefined ? [await startHivemq(folder)] : []),
  ]
}

async function startMosquitto(parent: string, isSaving: boolean): Promise<Broker> {
  const [folder, port] = [await mkdtemp(join(parent, 'mosquitto-')), await freePort()]
  const common = [`listener ${port} 127.0.0.1`, 'allow_anonymous true', 'user root', 'max_inflight_messages 0', 'max_queued_messages 0']
  const saving = ['persistence true', `persistence_location ${folder}/`, 'autosave_interval 1']
  const file = join(folder, 'mosquitto.conf')
  await writeFile(file, `${[...common, ...(isSaving ? saving : ['persistence false'])].join('\n')}\n`)
  const kept = await keep([mosquitto, '-c', file], { folder, isReady: line => line.endsWith(' running') })
  return brokerOf(isSaving ? 'mosquitto, saves' : 'mosquitto', isSaving, kept, port)
}

/** It keeps all in files by default. A session that is away would lose what is beyond a thousand messages. */
async function startHivemq(parent: string): Promise<Broker> {
  const artifact = { group: 'com.hivemq', name: 'hivemq-community-edition-embedded', version: hivemqVersion }
  const copy = ['dependency:copy-dependencies', '-DincludeScope=runtime', '-DoutputDirectory=lib']
  await makeOnce(hivemq, draft => runMaven(draft, [artifact], copy))
  const [folder, port] = [await mkdtemp(join(parent, 'hivemq-')), await freePort()]
  const config = `<hivemq>
  <listeners><tcp-listener><port>${port}</port><bind-address>127.0.0.1</bind-address></tcp-listener></listeners>
  <mqtt><queued-messages><max-queue-size>100000000</max-queue-size></queued-messages></mqtt>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
</hivemq>`
  await writeFile(join(folder, 'config.xml'), config)
  const words = ['java', ...openModules, '-cp', join(hivemq, 'lib', '*'), join(import.meta.dirname, 'hivemq.java'), folder]
  const kept = await keep(words, { folder, isReady: line => line.includes('Started EmbeddedHiveMQ') })
  return brokerOf('HiveMQ CE, saves', true, kept, port)
}

function brokerOf(name: string, isSaving: boolean, kept: Kept, port: number): Broker {
  return { name, isSaving, pid: kept.pid, port, keys: [], topic: 'channels/1/messages', stop: () => kept.end('KILL') }
}
