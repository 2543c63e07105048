// Layout files of tests, and the errors about them.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { OptionsError } from '../../../config/options/options.ts'
import { type LayoutFile, readLayout } from '../../../control-plane/provisioning/layout-file.ts'
import { temporaryFolder } from '../../temporary-folder.ts'

export interface Surroundings {
  readonly compatibility?: 'none' | '0.13'
  readonly environment?: Readonly<Record<string, string>>
}

/** @returns its path */
export function layoutFile(text: string): string {
  const path = join(temporaryFolder(), 'config.toml')
  writeFileSync(path, text)
  return path
}

export function layoutOf(text: string, { compatibility = 'none', environment = {} }: Surroundings = {}): LayoutFile {
  return readLayout(layoutFile(text), { compatibility, environment })
}

/** The lines of an OptionsError, without the folder of its file. */
export function faultsOf(load: () => unknown): string[] {
  try {
    load()
  } catch (error) {
    if (error instanceof OptionsError) return error.faults.map(({ place, problem }) => `${place.replace(/^.*\//, '')}: ${problem}`)
    throw error
  }
  return []
}
