// The command-line options that name a tool's target. Apart from target.ts, because `--help` needs them and not the whole pipeline.

import { type Command, Option } from 'commander'
import type { TObject } from 'typebox'
import { ToolError } from '../../../bin/streams.ts'
import type { OptionSources } from '../../../config/options/options.ts'
import { type StoreName, storeNamesText, storeOf } from '../../stores/store.ts'

/** Reads the environment and a file, with the variables of all roles known. */
export type Sources = (
  schema: TObject,
  file: string | undefined,
  overrides: OptionSources['overrides'],
  fileVariable?: string,
) => Promise<OptionSources>

export interface TargetFlags {
  readonly config?: string
  readonly writer?: string
  readonly url?: string
  readonly token?: string
  /** Instead of the address in the options. */
  readonly storeUrl?: string
}

/** The end of errors that also appear where `./sluice up` runs, without Kafka and without an address of a store. */
export const orUp = 'or give --url for a running `./sluice up`'

/** The options that every tool has. */
export function addTargetOptions(command: Command): Command {
  const writer = "the writer's name (default: the writer that owns the store; for dlq: log.group, or else the store's default name)"
  return addAddressOptions(command.option('--writer <name>', writer))
}

/** Those that say where to find log and store. */
export function addAddressOptions(command: Command): Command {
  return command
    .option('--config <file>', "the writer's TOML file (default: the path in SVC_<STORE>_WRITER_CONFIG_PATH)")
    .option('--url <url>', 'address of a running `./sluice up`, instead of Kafka and a store: http://127.0.0.1:8080')
    .addOption(new Option('--token <token>', 'token of an administrator, for --url').env('SVC_TOKEN'))
}

/** @throws ToolError for an unknown name */
export function storeNamed(name: string): StoreName {
  const store = storeOf(name)
  if (store === undefined) throw new ToolError(`unknown store ${JSON.stringify(name)}: the stores are ${storeNamesText}`)
  return store
}
