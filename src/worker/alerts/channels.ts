/** The ways out that the settings name. */
import type { Network } from '../../api/network.ts';
import type { Log } from '../../model/log.ts';
import type { SecretAddress } from '../../model/secret.ts';
import { runAlertCommand } from './command.ts';
import type { Channels } from './courier.ts';
import { sendRequest } from './request.ts';

export interface ChannelSettings {
  readonly webhook: SecretAddress | undefined;
  /** A program and its arguments. */
  readonly command: readonly string[] | undefined;
  readonly network?: Network;
}

export interface ChannelPorts {
  readonly userAgent: string;
  readonly log: Log;
  /** For the command: its working folder, and its environment, without any secret of ours. */
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

export function channelsOf({ webhook, command, network = {} }: ChannelSettings, ports: ChannelPorts): Channels {
  const { userAgent } = ports;
  return {
    ...(webhook && {
      webhook: (payload, signal) =>
        sendRequest(webhook, { method: 'POST', body: JSON.stringify(payload), userAgent, network }, signal),
    }),
    ...(command && { command: (payload, signal) => runAlertCommand(command, payload, ports, signal) }),
  };
}
