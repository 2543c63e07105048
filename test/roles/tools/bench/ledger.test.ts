// The ledger of a load: small, readable after a kill, and never written over.

import { appendFile, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { createLedger, readLedger } from '../../../../roles/tools/bench/ledger.ts'
import type { LoadPlan } from '../../../../roles/tools/bench/messages.ts'
import { temporaryFolder } from '../../../temporary-folder.ts'

const plan: LoadPlan = {
  seed: 1,
  messages: 10,
  devices: 1,
  channels: 1,
  mix: { 'record-senml': 1 },
  invalidShare: 0,
  startUs: 0,
  stepUs: 1,
  protocol: 'http',
}

test('it has the plan, and what was acknowledged in any order; adjacent ranges take one entry', async () => {
  const path = join(temporaryFolder(), 'load.ledger')
  const ledger = await createLedger(path, plan)
  ledger.acknowledge(4, 6)
  ledger.acknowledge(0, 2)
  ledger.acknowledge(2, 4)
  await ledger.flush()
  ledger.acknowledge(8, 9)
  await ledger.close()
  expect((await readFile(path, 'utf8')).split('\n').slice(1)).toEqual(['{"acknowledged":[[0,6]]}', '{"acknowledged":[[8,9]]}', ''])
  const read = await readLedger(path)
  expect(read.plan).toMatchObject(plan)
  expect([...read.acknowledged]).toEqual([1, 1, 1, 1, 1, 1, 0, 0, 1, 0])
})

test('a line that a kill has cut off is left out', async () => {
  const path = join(temporaryFolder(), 'load.ledger')
  const ledger = await createLedger(path, plan)
  ledger.acknowledge(0, 2)
  await ledger.close()
  await appendFile(path, '{"acknowledged":[[2,10')
  expect([...(await readLedger(path)).acknowledged]).toEqual([1, 1, 0, 0, 0, 0, 0, 0, 0, 0])
})

test('a file that exists is not written over, and one that is no ledger is not read', async () => {
  const path = join(temporaryFolder(), 'load.ledger')
  await writeFile(path, 'notes\n')
  await expect(createLedger(path, plan)).rejects.toThrow(/exists already: name another file with --ledger$/)
  await expect(readLedger(path)).rejects.toThrow(/is not the ledger of a load/)
  await expect(readLedger(join(temporaryFolder(), 'none'))).rejects.toThrow(/cannot be read \(ENOENT/)
})
