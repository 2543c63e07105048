// Installs and builds the servers of the slow tests before the first of them: some take minutes, once, and two builds beside each other twice as long.

import { installCassandra, missingCassandra } from './cassandra.ts'
import { installInflux, missingInflux } from './influx.ts'
import { installKafka, missingKafka } from './kafka-install.ts'
import { installMongo, missingMongo } from './mongo.ts'
import { installOpenFga, missingOpenFga } from './openfga.ts'
import { installStepCa, missingStepCa } from './step-ca.ts'

interface Server {
  readonly name: string
  /** Also installs what it is built with, where that is possible. */
  readonly missing: () => string | undefined
  readonly install: () => Promise<unknown>
}

const servers: readonly Server[] = [
  { name: 'Kafka', missing: missingKafka, install: installKafka },
  { name: 'Cassandra', missing: missingCassandra, install: installCassandra },
  { name: 'FerretDB (a minute)', missing: missingMongo, install: installMongo },
  { name: 'OpenFGA (a minute)', missing: missingOpenFga, install: installOpenFga },
  { name: 'step-ca (two minutes)', missing: missingStepCa, install: installStepCa },
  { name: 'InfluxDB (six minutes)', missing: missingInflux, install: installInflux },
]

/** Tells of what takes longer than a second. What cannot be had is told by the suites that need it, each for itself. */
export async function prepareServers(say: (line: string) => void): Promise<void> {
  for (const { name, missing, install } of servers) {
    const startedMs = performance.now()
    const soon = setTimeout(() => say(`${name} is made ready, once`), 1000)
    try {
      if (missing() === undefined) await install()
    } catch (error) {
      say(`${name} cannot be made ready: ${String(error)}`)
    } finally {
      clearTimeout(soon)
    }
    const seconds = (performance.now() - startedMs) / 1000
    if (seconds > 1) say(`${name} took ${seconds.toFixed(0)} s`)
  }
}
