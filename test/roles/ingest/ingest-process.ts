// The role ingest with an embedded log, as a separate process: for tests of the role without a broker.

import { openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { exitAfter } from '../../../roles/exit.ts'
import { ingest } from '../../../roles/ingest/ingest.ts'
import { loadIngestOptions } from '../../../roles/ingest/options.ts'

const options = loadIngestOptions({ environment: process.env })

await exitAfter(options.logging, () =>
  ingest(options, '0.0.0', async ({ topic }, logger) =>
    openEmbeddedLog({ path: process.env['TEST_LOG']!, name: topic, queueBytesMax: 10_000_000, retentionMs: 3_600_000, logger }),
  ),
)
