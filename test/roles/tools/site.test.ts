// The options of tools that look at a site themselves: those of its writer, and from the file that the writer reads.

import { afterEach, expect, test, vi } from 'vitest'
import { sources } from '../../../roles/roles.ts'
import { openSite } from '../../../roles/tools/site.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test("a tool reads the writer's file, and says by which variable it was told of one that is not there", async () => {
  vi.stubEnv('SVC_RELATIONAL_WRITER_CONFIG_PATH', '/nowhere/writer.toml')
  await expect(openSite('relational', {}, sources)).rejects.toThrow('/nowhere/writer.toml (SVC_RELATIONAL_WRITER_CONFIG_PATH)')
})

test('an empty variable names no file', async () => {
  vi.stubEnv('SVC_RELATIONAL_WRITER_CONFIG_PATH', '')
  vi.stubEnv('SVC_LOG_BROKERS', 'nonsense broker')
  await expect(openSite('relational', {}, sources)).rejects.toThrow(/log\.brokers/)
})
