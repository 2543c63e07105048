// The options of tools that open a site themselves: its writer's options, from the writer's file.

import { afterEach, expect, test, vi } from 'vitest'
import { sources } from '../../../../roles/roles.ts'
import { openTarget } from '../../../../roles/tools/target/target.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

test("a tool reads the writer's file, and names the variable that names a missing one", async () => {
  vi.stubEnv('SVC_RELATIONAL_WRITER_CONFIG_PATH', '/nowhere/writer.toml')
  await expect(openTarget('relational', {}, sources)).rejects.toThrow('/nowhere/writer.toml (SVC_RELATIONAL_WRITER_CONFIG_PATH)')
})

test('an empty variable names no file', async () => {
  vi.stubEnv('SVC_RELATIONAL_WRITER_CONFIG_PATH', '')
  vi.stubEnv('SVC_LOG_BROKERS', 'nonsense broker')
  await expect(openTarget('relational', {}, sources)).rejects.toThrow(/log\.brokers/)
})
